"""Limits of the operators' pages."""

# For a statement: a page with two slow ones reports it before the server gives the request up.
STATEMENT_SECONDS = 4.0
# Rows of a page of a long list, and the number of the last page.
ROWS = 100
PAGES = 10_000
