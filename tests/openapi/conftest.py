"""The same servers as for the contract's table."""

from tests.http.conftest import server, uvloop

__all__ = ["server", "uvloop"]
