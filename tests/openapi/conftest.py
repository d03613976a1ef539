"""The servers of the contract's table."""

from tests.http.conftest import server, uvloop

__all__ = ["server", "uvloop"]
