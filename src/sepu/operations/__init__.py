"""The operations as plain functions: bytes in, the charge or the library's answer out. No I/O, no HTTP, no SQL."""
