"""Limits of the operators' pages."""

# For a statement: a page with two slow ones reports it before the server gives the request up.
STATEMENT_SECONDS = 4.0
# Then the host counts as gone.
SILENT_SECONDS = STATEMENT_SECONDS + 1
# Pages that read the ledger at the same time, and how long the next one waits for its turn.
READERS = 4
TURN_SECONDS = 5.0
# For the overview's sums over all accounts; then the page leaves them out.
OVERVIEW_SECONDS = 0.7
# Rows of a page of a long list, and the number of the last page.
ROWS = 100
PAGES = 10_000
