"""Postgres for metering and for operators: hosts, connections, statements, migrations, roles, and the SQL.

The ledger's rules are the functions in `sql/functions.sql`.
"""
