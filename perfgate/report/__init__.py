"""Verdicts, runs and histories as something to read.

Files in the order data passes through them: `view` (records as rows that are sorted, rounded and
worded, without markup), `grouping` (rows by benchmark), then one module per form: `text` (terminal,
with `layout` for tables that fit), `markdown` (pull-request comment, job summary), `json`
(machines), `chart` (SVG from numbers) and `html` (one page that needs no network).
"""
