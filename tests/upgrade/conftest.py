import pytest


@pytest.fixture
def ledger_url(own_url: str) -> str:
    """Upgraded, so shared with nobody."""
    return own_url
