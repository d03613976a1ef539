"""Metering: accounts, plans, keys, usage and idempotency in Postgres. Knows no HTTP and no colours.

The rules are the SQL functions in `sql/functions.sql`; this package calls them.
"""
