"""Verdicts, runs and histories as something to read.

Files in the order data passes through them: `figures` (a number as text), `view` (records as rows
that are sorted, rounded and worded, without markup), then one module per form: `text` (terminal),
`markdown` (pull-request comment, job summary), `json` (machines), `chart` (SVG from numbers) and
`html` (one page that needs no network).
"""
