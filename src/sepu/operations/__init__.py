"""The operations as plain functions: they take bytes and return the answer. No I/O, no HTTP, no SQL."""
