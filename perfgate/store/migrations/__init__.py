"""How the tables came to be: one file in `versions/` per change, applied in order by Alembic."""
