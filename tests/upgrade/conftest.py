import pytest


@pytest.fixture
def ledger_url(own_url: str) -> str:
    """Not shared, because it is upgraded."""
    return own_url
