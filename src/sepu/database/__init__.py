"""What both rooms of the ledger use of Postgres: hosts, connections, statements, migrations, roles, and the SQL.

The ledger's rules are the functions in `sql/functions.sql`.
"""
