"""The server that the documents' examples ask."""

from tests.http.conftest import uvloop

__all__ = ["uvloop"]
