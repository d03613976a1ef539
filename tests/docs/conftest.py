"""The server for the documents' examples."""

from tests.http.conftest import uvloop

__all__ = ["uvloop"]
