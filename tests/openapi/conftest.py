"""The servers of the contract's table."""

from tests.http.conftest import server

__all__ = ["server"]
