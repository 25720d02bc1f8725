"""The migrations. One that was released is never edited; a change is a new file."""
