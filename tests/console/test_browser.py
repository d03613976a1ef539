"""The console's pages in a real Chromium: in a wide and a narrow window, light and dark, and by keyboard."""

import pytest
from psycopg import Connection
from tests.browser import Look, Scheme, Seen, look
from tests.console.running import Console
from tests.keys import made_up_key

from sepu.admin.charges import list_charges
from sepu.admin.events import list_events
from sepu.admin.naming import find_account

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]  # longer than Chromium's own time-out

PAGES = (
    *("/", "/accounts", "/accounts?sort=match-share&desc=yes", "/plans", "/usage", "/events", "/history", "/nowhere"),
    *("/accounts/cus_8812", "/accounts/cus_8812/charges", "/accounts/cus_8812/history"),
)
WINDOWS: tuple[tuple[int, Scheme], ...] = ((1280, "light"), (400, "dark"))


@pytest.fixture(scope="module")
def seen(seeded: Console, ledger: Connection) -> dict[Look, Seen]:
    account_id = find_account(ledger, "cus_8812")
    charge = next(list_charges(ledger, account_id, limit=1))
    event = next(list_events(ledger, account_id=account_id))
    charges = f"/accounts/{account_id}/charges"
    pasted = (
        f"{charges}?key={charge.key_id}",
        f"{charges}?request={charge.request_id}",
        f"/events?event={event.event_id}",
    )
    pages = [Look(f"http://{seeded.address}{page}", *window) for page in (*PAGES, *pasted) for window in WINDOWS]
    typed = (f"key {made_up_key(account_id)}", "nobody")
    pages += [Look(f"http://{seeded.address}{page}", typed=text) for page in ("/", "/accounts") for text in typed]
    return dict(zip(pages, look(pages), strict=True))


def test_no_page_is_wider_than_its_window(seen: dict[Look, Seen]) -> None:
    assert {page: found.overflow for page, found in seen.items() if found.overflow > 0} == {}


def test_nothing_lies_off_a_narrow_screen_or_through_a_text(seen: dict[Look, Seen]) -> None:
    assert {page.url: found.off for page, found in seen.items() if found.off} == {}
    assert {page.url: found.through for page, found in seen.items() if found.through} == {}


def test_axe_finds_no_fault(seen: dict[Look, Seen]) -> None:
    assert {page: found.violations for page, found in seen.items() if found.violations} == {}
    assert all(
        {"color-contrast", "document-title", "landmark-one-main"} <= set(found.passes) for found in seen.values()
    )


def test_nothing_is_fetched_from_elsewhere_and_nothing_is_blocked(seeded: Console, seen: dict[Look, Seen]) -> None:
    for page, found in seen.items():
        assert [request for request in found.requests if not request.startswith(f"http://{seeded.address}/")] == []
        expected = ["404"] if page.url.endswith("/nowhere") else []
        assert [complaint for complaint in found.complaints if not any(each in complaint for each in expected)] == []


def test_a_key_that_is_typed_or_pasted_into_the_search_is_not_sent(seen: dict[Look, Seen]) -> None:
    for page, found in seen.items():
        sent = [request.partition("?search=")[2].partition("&")[0] for request in found.requests if "?" in request]
        assert sent == ["nobody"] if page.typed == "nobody" else [text for text in sent if "key" in text] == [], page


def test_the_keyboard_reaches_everything_and_shows_where_it_is(seen: dict[Look, Seen]) -> None:
    for page, found in seen.items():
        names = [stop.name for stop in found.reached]
        assert names[:7] == ["Skip to content", "Overview", "Accounts", "Usage", "Events", "Plans", "History"]
        assert [stop.name for stop in found.reached if stop.outline == "none"] == []
        if page.url.endswith("/accounts"):
            assert {"Search", "Silk & Co.", "四季染坊"} <= set(names)
    usage = next(found for page, found in seen.items() if page.url.endswith("/usage"))
    assert "Months" in [stop.name for stop in usage.reached], "a table that may scroll"
