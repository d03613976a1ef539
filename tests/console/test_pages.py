"""The console's pages, as served."""

import re
import resource
import signal
import socket
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, nullcontext
from datetime import UTC, datetime, timedelta
from html import escape, unescape
from itertools import pairwise
from pathlib import Path
from unittest.mock import Mock
from urllib.parse import parse_qsl, quote, urlsplit

import click
import pytest
from falcon.testing import TestClient
from psycopg import Connection
from tests.charging import charge
from tests.client.hostile import Peer, certificate, listening, saying
from tests.console.running import Console
from tests.console.seeding import CUSTOMERS
from tests.harness.processes import completed
from tests.harness.serving import SEPU
from tests.keys import made_up_key
from tests.server.test_webhooks import garbage

from sepu import limits
from sepu.admin import accounts
from sepu.admin.audit import audit, record_audit
from sepu.admin.events import list_events
from sepu.admin.keys import change_key, issue_key, revoke_key
from sepu.admin.naming import find_account
from sepu.cli.commands import commands
from sepu.console.app import create_console
from sepu.console.metrics import read_service_state
from sepu.console.pages import ServiceState
from sepu.database.opening import connect
from sepu.database.roles import grant

NOW = datetime.now(UTC)
THIS = f"{NOW:%Y-%m}"
LAST = f"{NOW.replace(day=1) - timedelta(days=1):%Y-%m}"


@pytest.fixture
def owner(empty: Console) -> Iterator[Connection]:
    with connect(empty.owner_url) as opened:
        yield opened


def plain(page: str) -> str:
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", page)).split())


def links(page: str) -> set[str]:
    """The addresses that a page leads to, by a link or a form."""
    return {unescape(link) for link in re.findall(r'<(?:a|form) [^>]*(?:href|action)="(/[^"]*)"', page)}


@pytest.mark.parametrize("target", ["/", "/accounts", "/plans", "/usage", "/events", "/static/style.css", "/nowhere"])
def test_nothing_is_kept_or_comes_from_elsewhere(seeded: Console, target: str) -> None:
    found = seeded.get(target)
    assert found.status == (404 if target == "/nowhere" else 200)
    assert found.headers["cache-control"] == "no-store"
    assert found.headers["content-security-policy"].startswith("default-src 'none'; style-src 'self';")
    assert "script-src" not in found.headers["content-security-policy"]
    assert found.headers["cross-origin-resource-policy"] == "same-origin"
    assert found.headers["x-content-type-options"] == "nosniff"
    assert "set-cookie" not in found.headers
    assert not [name for name in found.headers if name.startswith("access-control-")]


def test_every_link_leads_to_a_page_without_a_secret(seeded: Console, ledger: Connection) -> None:
    hashes = [row[0] for row in ledger.execute("select key_hash from sepu.api_key").fetchall()]
    used = [row[0] for row in ledger.execute("select idempotency_key from sepu.stored_result").fetchall()]
    pages: dict[str, str] = {}
    due = {"/"}
    seen: set[str] = set()  # by template: any day, order or page of a list stands for the others
    while due:
        target = due.pop()
        kind = re.sub(r"(day|sort|desc|page)=[^&]*", r"\1", target)
        if kind not in seen:
            seen.add(kind)
            pages[target] = seeded.page(target)
            due |= links(pages[target]) - pages.keys()
    assert len(pages) > len(CUSTOMERS) * 3
    for page in pages.values():
        assert not re.search(r"<script|<style|\sstyle=|\son\w+=|https?://", page)
        assert not re.search("sepu_[a-z2-7]", page), "as a key begins"
        assert not [key for key in hashes if key.hex()[:16] in page]
        assert not [key for key in used if key in page]
        for field in re.findall(r'<input (?!type="hidden")[^>]*>', page):  # browsers submit only what matches
            pattern = unescape(field.partition(' pattern="')[2].partition('"')[0])
            assert re.fullmatch(pattern, "cus_8812"), field
            assert not re.fullmatch(pattern, f"key {made_up_key('b' * 16)}"), field


def test_the_state_of_the_service_and_accounts_near_a_limit(seeded: Console) -> None:
    text = plain(seeded.page("/"))
    assert re.search(r"Silk & Co\. standard colours 1,[89]\d\d of 2,150 \d\d %", text)
    assert "Lantern Studio" not in text
    audited = f"({NOW:%Y-%m-%d}|{datetime.now(UTC):%Y-%m-%d})"  # midnight may pass
    assert re.search(r"It adds up: \d+ counters, [\d,]+ stored results\. " + audited, text)
    assert re.search(r"Database PostgreSQL \S+.*, the primary, [\d.]+ MB", text)
    assert re.search(r"Events \d+ to be delivered, the oldest for [\d,]+ (hours|minutes)\.", text)
    assert re.search(r"Workers not known Last backup not known", text)


def test_accounts_are_searched_and_filtered(seeded: Console) -> None:
    def named(query: str) -> set[str]:
        page = seeded.page(f"/accounts{query}")
        return {name for name, *_ in CUSTOMERS if escape(name) in page}

    everybody = {name for name, *_ in CUSTOMERS}
    assert named("") == named("?search=&plan_id=&status=") == everybody
    assert named("?plan_id=gold") == {name for name, _, plan, _ in CUSTOMERS if plan == "gold"}
    assert named("?status=suspended") == {"Bamboo Furniture"}
    assert named("?search=%E5%9B%9B%E5%AD%A3") == {"四季染坊"}
    assert "No account matches" in seeded.page("/accounts?search=nobody")
    assert {"search", "plan_id", "status", "quiet"} <= {*re.findall(' name="([a-z_]+)"', seeded.page("/accounts"))}


def test_one_account(seeded: Console, ledger: Connection) -> None:
    page = plain(seeded.page("/accounts/cus_8812"))
    for part in ("Silk & Co.", "cus_8812", "active", "web shop", "back end", THIS, LAST):
        assert part in page
    assert "limit for colours 2000 to 2100" in page
    assert "requests a minute 120 to 150" in page
    account_id = find_account(ledger, "cus_8812")
    of_it = "where meter = 'color_match' and account_id = %s"
    committed = f"select period, committed from sepu.usage {of_it}"
    months: dict[str, int] = dict(ledger.execute(committed, (account_id,)).fetchall())
    by_key = f"select key_id, sum(units) from sepu.stored_result {of_it} and period = %s group by 1"
    for key_id, units in ledger.execute(by_key, (account_id, THIS)):
        assert re.search(rf" {key_id} (?:(?!{account_id}-).)* {units:,} ", page)
    assert re.search(rf"Colours {months[THIS]:,} of 2,150 \d+ % 50 0 {months[THIS]:,} Searches .*? % 0 20 ", page)
    assert all(f"{month} {units:,} " in page.partition(" Months Month ")[2] for month, units in months.items())
    before = plain(seeded.page(f"/accounts/{account_id}?month={LAST}"))
    assert f"Colours {months[LAST]:,} of 2,000 " in before, "the plan's limit of then"
    (days,) = re.findall(r"by day Day Colours Searches (.*?) Months", before)
    assert sum(int(units.replace(",", "")) for units in re.findall(r"\d-\d\d ([\d,]+)", days)) == months[LAST]


@pytest.mark.parametrize(
    ("target", "status", "told"),
    [
        ("/accounts/aaaaaaaaaaaaaaaa", 404, "there is no account"),
        ("/accounts/%3Cb%3E", 404, "&lt;b&gt;"),
        ("/accounts/cus_8812?month=2026-13", 400, "is not a month like"),
        ("/accounts/cus_8812?month=9989-12", 400, "has not begun"),
        ("/accounts/cus_8812?month=2000-01", 400, "was made after 2000-01"),
        ("/accounts?search=a%00", 400, "cannot have a NUL"),
        ("/accounts/a%00", 400, "cannot have a NUL"),
        ("/accounts/", 404, "404 Not Found"),
        ("/accounts?status=odd", 400, "no status"),
        ("/accounts?sort=x", 400, "not sorted by"),
        ("/accounts?page=-1", 400, "there is no page"),
        ("/accounts/cus_8812?keys=x", 400, "there is no page"),
        ("/accounts/cus_8812?grants=-1", 400, "there is no page"),
        ("/plans?page=x", 400, "there is no page"),
        ("/events?state=x", 400, "no event is"),
        ("/events?event=x", 400, "is not the id of an event"),
        ("/usage?day=2026-13-01", 400, "is not a day like"),
    ],
)
def test_what_cannot_be_shown_is_told(seeded: Console, target: str, status: int, told: str) -> None:
    assert told in seeded.page(target, status)


def test_plans_and_usage_of_all(seeded: Console, ledger: Connection) -> None:
    plans = seeded.page("/plans")
    assert "gold 15,000 10,000 600 80, 95, 100 % 3" in plain(plans)
    labelled = re.findall(r'<t[hd] data-label="([^"]*)"[^>]*>(?:<a [^>]*>)?([^<]*)', plans)
    assert {("Plan", "gold"), ("Requests a minute", "600"), ("Accounts", "3")} <= {*labelled[:6]}
    assert " 3 accounts. This" in plain(seeded.page(next(link for link in links(plans) if link.endswith("gold"))))
    page = plain(seeded.page("/usage"))
    used = "select sum(committed) from sepu.usage where meter = 'color_match' and period = %s"
    ((units,),) = ledger.execute(used, (LAST,)).fetchall()
    assert f"{LAST} {units:,} " in page
    assert f"{LAST} by day" in plain(seeded.page(f"/usage?month={LAST}"))


def test_events(seeded: Console, ledger: Connection) -> None:
    recorded = list(list_events(ledger, period=THIS))
    text = plain(seeded.page("/events"))
    assert "Silk & Co. colours 95 %" in text
    assert text.count(" of 2,000 due") + text.count(" of 15,000 due") == len(recorded) > 3
    silk = plain(seeded.page("/accounts/cus_8812"))
    assert re.search(r"Events Crossed .* colours 80 % 1,[67]\d\d of 2,000 due .* colours 95 %", silk)
    assert not re.search("Events Crossed|Trade fair", plain(seeded.page("/accounts/cus_9130")))
    assert "There is none" in seeded.page("/events?state=dead")
    assert f'value="{LAST}"' in seeded.page(f"/events?month={LAST}")


def test_many_events_are_cut_and_undelivered_ones_explained(empty: Console, owner: Connection) -> None:
    issued = accounts.create_account(owner, "standard")
    owner.execute(
        "insert into sepu.quota_event (account_id, period, meter, threshold, unit_limit, committed, crossed_at) "
        "select %s, %s, 'color_match', 80, n, n, now() + n * interval '1 s' from generate_series(1, 150) n",
        (issued.account_id, THIS),
    )
    text = plain(empty.page("/events"))
    assert "There are more: sepu events list" in text
    assert text.count("past its retention") == 100
    assert text.index("150 of 150") < text.index("51 of 51")
    charge(owner, issued.api_key, "order-0001", 1700, NOW)
    owner.execute("update sepu.quota_event set crossed_at = now() - interval '185 minutes'")
    for due, state, told in (("now()", "due", "the oldest for 3 hours."), ("null", "dead", "1 given up")):
        owner.execute(f"update sepu.event_delivery set last_error = 'HTTP 503', due_at = {due}")
        assert f" {state}: HTTP 503 " in plain(empty.page(f"/events?state={state}"))
        overview = plain(empty.page("/"))
        assert (told in overview, "All are delivered" in overview) == (True, False)


def test_many_accounts_take_several_pages(empty: Console, owner: Connection) -> None:
    made = [accounts.create_account(owner, "standard", f"Customer {number}").account_id for number in range(100, 320)]
    accounts.create_account(owner, "standard", "Another")
    target = "/accounts?search=customer&plan_id=standard&sort=name&desc=yes"
    pages, found = paged(empty, target, "page", r'href="/accounts/([a-z2-7]{16})"')
    assert (pages, found) == (3, made[::-1])


def test_a_name_is_text(empty: Console, owner: Connection) -> None:
    name = "<script>alert('名')</script>&amp;\"{{ 7 * 7 }}"
    issued = accounts.create_account(owner, "standard", name, "a/b:c@d")
    for target in ("/accounts", f"/accounts/{issued.account_id}", "/accounts?search=%3Cscript"):
        page = empty.page(target)
        assert "<script" not in page
        assert name in plain(page)
    assert 'value="&lt;script"' in empty.page("/accounts?search=%3Cscript")


def test_the_audits_last_verdict(empty: Console, owner: Connection) -> None:
    assert "never audited" in empty.page("/")
    issued = accounts.create_account(owner, "standard")
    record_audit(owner, audit(owner))
    for host in ("localhost:1", "LOCALHOST", "127.0.0.1", "[::1]:9", "127.1", "console.example", "other.example"):
        assert empty.get("/", host=host).status == 200, "its own names are known"
    assert "It adds up: 0 counters, 0 stored results" in plain(empty.page("/"))
    owner.execute("insert into sepu.usage values (%s, %s, 'color_match', 7)", (issued.account_id, THIS))
    assert completed([SEPU, "audit", "--database-url", empty.owner_url]).returncode == 1
    assert "1 of 1 counters differ" in plain(empty.page("/"))
    assert "more than a day ago" not in empty.page("/")
    owner.execute("update sepu.audit_run set audited_at = audited_at - interval '27 hours'")
    assert "more than a day ago" in empty.page("/")


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "evil.example:8010", "localhost."])
def test_a_foreign_name_is_refused(seeded: Console, host: str) -> None:
    """A hostile page could point its own name at this machine's address, and read our answers."""
    found = seeded.get("/accounts", host=host)
    assert found.status == 421
    assert b"Silk" not in found.body
    assert b"--allowed-hosts" in found.body


# The site, mode and destination that a browser tells of a request, and whether it may be answered.
FETCHES = (
    ((), True),  # curl, and older browsers
    (("same-origin", "no-cors", "image"), True),
    (("none", "navigate", "document"), True),
    (("cross-site", "navigate", "document"), True),  # a link in a chat
    (("cross-site", "no-cors", "image"), False),
    (("cross-site", "navigate", "iframe"), False),
    (("same-site", "cors", "empty"), False),  # another port of localhost
    (("cross-site",), False),
)


def test_who_may_ask_is_decided_before_the_ledger_is_read(empty: Console, owner: Connection) -> None:
    def answered(when_allowed: int) -> None:
        for fetch, is_allowed in FETCHES:
            headers = dict(zip(("Sec-Fetch-Site", "Sec-Fetch-Mode", "Sec-Fetch-Dest"), fetch, strict=False))
            assert empty.request("GET", "/usage", headers).status == (when_allowed if is_allowed else 403), fetch

    answered(200)
    owner.execute("alter role sepu_console nologin")
    try:
        answered(503)
        assert "is not permitted to log in" in empty.page("/", 503)
    finally:
        owner.execute("alter role sepu_console login")
    assert empty.get("/").status == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD", "TRACE"])
def test_it_only_reads(seeded: Console, method: str) -> None:
    found = seeded.get("/accounts", method)
    assert (found.status, found.headers["allow"]) == (405, "GET")


def test_a_page_that_takes_too_long_or_may_not_read_is_given_up(empty: Console, owner: Connection) -> None:
    with owner.transaction():
        owner.execute("lock table sepu.stored_result in access exclusive mode")
        assert "not known: it would take long" in empty.page("/")
        owner.execute("lock table sepu.plan in access exclusive mode")
        assert "statement timeout" in empty.page("/plans", 503)
    owner.execute("revoke usage on schema sepu from sepu_console")
    assert "permission denied for schema sepu; as the owner" in empty.page("/", 503)
    grant(owner, "sepu_console", "read-only")
    assert empty.get("/plans").status == 200


def test_slow_clients_delay_nobody(seeded: Console) -> None:
    """More connections than a browser or a proxy opens, but fewer than half of the console's."""
    host, _, port = seeded.address.partition(":")
    files, hard = resource.prlimit(seeded.process.pid, resource.RLIMIT_NOFILE)
    assert files == min(limits.connections.OF_A_WORKER * 3 // 2 + 100, hard), "each waiting thread has another one"
    with ExitStack() as stack:
        slow = [stack.enter_context(socket.create_connection((host, int(port)))) for _ in range(300)]
        for each in slow:
            each.sendall(b"GET /static/icon.svg HTTP/1.1\r\nHost: localhost\r\n")
        assert seeded.get("/").status == 200
        for each in slow:  # none was disconnected to make room
            each.setblocking(False)
            with pytest.raises(BlockingIOError):
                each.recv(1)
        for each in slow[:8]:
            each.setblocking(True)
            each.sendall(b"Connection: close\r\n\r\n")
            assert each.recv(12) == b"HTTP/1.1 200"


def test_ctrl_c_is_for_the_master_alone(seeded: Console) -> None:
    """The worker's own handler may interrupt itself, and block for half a minute."""
    (worker,) = seeded.workers()
    (ignored,) = re.findall(r"SigIgn:\s+(\w+)", Path(f"/proc/{worker}/status").read_text())
    assert int(ignored, 16) >> (signal.SIGINT - 1) & 1


def test_accounts_are_sorted_both_ways_with_sums(seeded: Console, ledger: Connection) -> None:
    def order(query: str) -> list[str]:
        page = seeded.page(f"/accounts?{query}")
        return [unescape(name) for name in re.findall(r"<th [^>]*row[^>]*><a [^>]*>([^<]*)</a>", page)]

    by_share = ("Silk & Co.", "Porcelain Works", "Brush and Ink")
    assert set(order("sort=match-share&desc=yes")[:3]) == set(by_share)
    assert order("sort=match&desc=yes")[0] == "Porcelain Works"
    assert order("sort=used")[-1] == order("sort=used&desc=yes")[-1] == "Bamboo Furniture", "never used"
    assert order("sort=name") == order("sort=name&desc=yes")[::-1] == sorted(order(""), key=str.lower)
    assert 'aria-sort="descending"' in seeded.page("/accounts?sort=match-share&desc=yes")
    by_change = seeded.page("/accounts?sort=match-change&desc=yes")
    changes = [int(units) for units in re.findall(r"([+-]\d+) since last month", by_change)[::2]]
    assert changes == sorted(changes, reverse=True) != sorted(changes)
    used = "select sum(committed) from sepu.usage where period = %s and meter = 'color_match'"
    ((units,),) = ledger.execute(used, (THIS,)).fetchall()
    page = seeded.page("/accounts")
    assert f"8 accounts. This month: {units:,} colours (" in plain(page)
    for link in links(page):
        turned = link.removesuffix("yes") if link.endswith("desc=yes") else f"{link}yes"
        assert "sort=" not in link or turned in links(seeded.page(link)), "a second click turns the order"
    meters = re.findall(' low="(.*?)" high="(.*?)" optimum="(.*?)"', page)
    assert {float(best) < float(low) < float(high) for low, high, best in meters} == {True}, "much used is bad"


def test_charges_by_page_day_key_and_request(empty: Console, owner: Connection) -> None:
    issued = accounts.create_account(owner, "standard", "Silk & Co.")
    other = issue_key(owner, issued.account_id)
    owner.execute(
        "insert into sepu.stored_result select %s, 'order-' || n, sha256('1'), 'color_match', n, %s, '{}',"
        " '2026-02-01 23:53Z'::timestamptz + n / 20 * interval '1 min', (array[%s, %s])[n %% 2 + 1], gen_random_uuid()"
        " from generate_series(1, 250) n",
        (issued.account_id, "2026-02", other.key_id, issued.key_id),
    )
    first = f"/accounts/{issued.account_id}/charges"
    by_key, by_day = f"?key={issued.key_id}", "?day=2026-02-01"
    for only, charged in (("", range(1, 251)), (by_key, range(1, 251, 2)), (by_day, range(1, 140))):
        _, units = paged(empty, f"{first}{only}", "before", r">colours</td><td [^>]*>(\d+)</td>")
        assert sorted(map(int, units)) == [*charged], "each once, though twenty have one time"
    ((request_id,),) = owner.execute("select request_id::text from sepu.stored_result where units = 7").fetchall()
    places = re.findall(rf'(="|<code>|--request ){request_id}', empty.page(f"{first}?request={request_id}"))
    assert places == ['="', "<code>", "--request "]
    assert ' class="number">7</td>' in empty.page(f"{first}?request={request_id.upper()}&key={issued.key_id}")
    assert "There is no such charge" in empty.page(f"{first}?key={issued.account_id}-aaaaaaaa")
    for bad in ("day=x", "day=2026-02-30", "request=x", "before=x", "before=2026-02-01T00:00:00~x"):
        empty.page(f"{first}?{bad}", 400)
    shown = plain(empty.page(f"{first}?key={issued.key_id}"))
    assert re.search(rf"Key {issued.key_id} Name – .* State valid .* Ends – Last used –", shown)
    assert f"sepu key revoke {issued.key_id}" in shown
    change_key(owner, issued.key_id, expires_at=datetime(2099, 1, 1, tzinfo=UTC))
    revoke_key(owner, issued.key_id)
    for target in (f"{first}?key={issued.key_id}", f"/accounts/{issued.account_id}"):
        assert re.search(" revoked (?!.* 2099-)", plain(empty.page(target))), "it has ended already"


def test_a_pasted_id_leads_to_the_thing(seeded: Console, ledger: Connection) -> None:
    def leads(given: str, more: str = "") -> str | None:
        found = seeded.get(f"/accounts?search={quote(given)}{more}")
        assert found.status in {200, 303}, found.body
        assert found.headers["content-security-policy"].startswith("default-src 'none'")
        return found.headers.get("location")

    silk = find_account(ledger, "cus_8812")
    one = "select request_id::text, key_id, units, period, meter from sepu.stored_result where account_id = %s limit 1"
    ((request_id, key_id, units, period, meter),) = ledger.execute(one, (silk,)).fetchall()
    event = list(list_events(ledger, account_id=silk))[-1]
    assert leads(silk) == leads(" cus_8812 ") == f"/accounts/{silk}"
    assert leads(key_id) == f"/accounts/{silk}/charges?key={key_id}"
    charge = leads(request_id.upper())
    assert charge == f"/accounts/{silk}/charges?request={request_id}"
    command = f"sepu credit add {silk} {meter} {units} --month {period} --reason WHY"
    assert command in plain(seeded.page(charge))
    crossed = leads(event.event_id)
    assert crossed == f"/events?event={event.event_id}"
    page = plain(seeded.page(crossed))
    assert re.search(rf"Event {event.event_id} Account Silk & Co\. Attempts 0 Due 20\S+ \S+ Delivered – ", page)
    assert f"sepu events retry {event.event_id}" in page
    nothing = ("Silk", f"{silk}-aaaaaaaa", str(uuid.uuid4()), f"{event.event_id}0", f"{silk}:2026-01:x:80:1", "::::")
    assert {leads(given) for given in nothing} == {None}
    assert leads(silk, "&plan_id=gold") is None, "a filter is asked for too"
    assert "there is no event" in seeded.page(f"/events?event={event.event_id}0", 400)
    for of in ("/accounts?search=%20", "/accounts/", f"/accounts/{silk}/charges?key=%73", "/events?event=x%20"):
        key = made_up_key(silk).removeprefix("s" if of.endswith("%73") else "")
        refused = seeded.page(f"{of}{key}", 400)
        assert "and revoke it" in refused
        assert key[20:] not in refused + seeded.log.read_text()


def paged(console: Console, first: str, parameter: str, row: str) -> tuple[int, list[str]]:
    """The number of pages of one path, and all that they list, from the first to the last."""
    found: list[str] = []
    asked = {*parse_qsl(urlsplit(first).query)}
    pages, following = 0, [first]
    while following:
        page = console.page(unescape(following[0]))
        backs = re.findall(' href="([^"]*)">(?:Newest|Previous)<', page)
        assert bool(backs) == bool(pages)
        assert all(asked <= {*parse_qsl(urlsplit(unescape(back)).query)} for back in backs), "back to the same list"
        pages += 1
        found += re.findall(row, page)
        following = re.findall(rf'rel="next" href="({first.partition("?")[0]}\?[^"]*\b{parameter}=[^"]*)"', page)
    return pages, found


def test_many_keys_grants_changes_and_plans_take_several_pages(empty: Console, owner: Connection) -> None:
    issued = accounts.create_account(owner, "standard")
    own = f"/accounts/{issued.account_id}"
    owner.execute(
        "insert into sepu.api_key (account_id, key_hash, key_id, created_at)"
        " select %s, sha256(n::text::bytea), %s || '-' || lpad(translate(n::text, '0189', 'abcd'), 8, 'a'),"
        " now() + n * interval '1 s'"
        " from generate_series(1, 219) n",
        (issued.account_id, issued.account_id),
    )
    pages, keys = paged(empty, own, "keys", r"charges\?key=([a-z0-9-]+)")
    assert (pages, len(keys), len(set(keys)), keys[0]) == (3, 220, 220, issued.key_id)
    owner.execute(
        "insert into sepu.adjustment"
        " (account_id, adjustment_id, kind, period, meter, units, adjusted_at, operator, database_role, reason)"
        " select %s, gen_random_uuid(), 'grant', %s, 'color_match', n, now() + n * interval '1 s', 'a', 'b', 'c'"
        " from generate_series(1, 220) n",
        (issued.account_id, THIS),
    )
    pages, units = paged(empty, own, "grants", r">grant</td><td [^>]*>colours</td><td [^>]*>(\d+)</td>")
    assert (pages, units) == (3, [*map(str, range(121, 221)), *map(str, range(21, 121)), *map(str, range(1, 21))])
    owner.execute(
        "insert into sepu.change select (array['other', %s])[n %% 2 + 1], now() + n * interval '1 s', n, 'a', 'b', 'c',"
        " n from generate_series(1, 400) n",
        (issued.account_id,),
    )
    for target, count, numbers in ((f"{own}/history", 3, range(399, 0, -2)), ("/history", 5, range(400, 0, -1))):
        assert paged(empty, target, "page", r"<code>(\d+)</code>.*>b \(a\)<") == (count, [*map(str, numbers)])
    owner.execute("insert into sepu.plan select 'p' || n, 60 from generate_series(1, 250) n")
    owner.execute(
        "insert into sepu.plan_limit (plan_id, meter, units) select 'p' || n, m, 5 from generate_series(1, 250) n,"
        " unnest(array['color_match', 'color_search']) m"
    )
    pages, plans = paged(empty, "/plans", "page", r'<th [^>]*scope="row">(\w+)</th>')
    assert (pages, len(plans), len(set(plans))) == (3, 251, 251)
    assert empty.page("/accounts").count("<option") < 120


def test_grants_credits_and_history(seeded: Console) -> None:
    text = plain(seeded.page("/accounts/cus_8812"))
    assert re.search(r"grant colours 50 \S+ Trade fair, ticket 4711", text)
    assert re.search(r"credit searches 20 \S+ The outage of Monday", text)
    history = plain(seeded.page("/accounts/cus_8812/history"))
    assert re.search(r"grant\.add \S+ – .*units 50.*reason Trade fair, ticket 4711", history)
    assert "plan.set" in seeded.page("/history")
    assert "There is none" in seeded.page("/history?page=99")


def test_a_month_and_a_day_as_a_chart(seeded: Console, ledger: Connection) -> None:
    page = seeded.page(f"/accounts/cus_8812?month={LAST}")
    assert f'aria-label="Units: {LAST} by day"' in page
    heights = [float(height) for height in re.findall(r'<rect class="series0" [^>]*height="([\d.]+)"', page)]
    assert len(heights) > 20
    assert 0 < min(heights) < max(heights) <= 100
    bars = sorted((float(x), float(wide)) for x, wide in re.findall(r'<rect [^>]*x="(.*?)"[^>]*width="(.*?)"', page))
    assert all(x + wide < beside + 0.1 for (x, wide), (beside, _) in pairwise(bars)), "no bar hides another"
    (width,) = re.findall(r'viewBox="0 0 ([\d.]+) 100"', page)
    assert float(width) - 10 < sum(bars[-1]) < float(width), "the drawing ends with its last day"
    ((day, hour, units),) = ledger.execute(
        "select (s.created_at at time zone 'UTC')::date, to_char(s.created_at at time zone 'UTC', 'HH24'), s.units"
        " from sepu.stored_result s join sepu.account using (account_id)"
        " where external_id = 'cus_8812' and meter = 'color_match' and period = %s limit 1",
        (LAST,),
    ).fetchall()
    hours = seeded.page(f"/accounts/cus_8812?month={LAST}&day={day}")
    assert f'aria-label="Units: {day} by hour"' in hours
    assert f" {hour} {units:,} " in plain(hours)


def test_the_commands_of_an_account_are_about_it(seeded: Console, ledger: Connection) -> None:
    silk = find_account(ledger, "cus_8812")
    lines = re.findall(r"<code>(sepu [^<]*)</code>", seeded.page(f"/accounts/cus_8812?month={LAST}"))
    assert all(silk in line for line in lines)
    assert f"sepu usage {silk} --by key --month {LAST}" in lines
    assert f"sepu credit add {silk} color_match UNITS --month {LAST} --reason WHY" in lines
    assert f"--day {NOW:%Y-%m-%d}" in seeded.page(f"/accounts/cus_8812?day={NOW:%Y-%m-%d}")
    assert f"sepu account suspend {silk}" in lines
    assert "sepu account reactivate" in seeded.page("/accounts/cus_9201"), "it is suspended"


def test_each_command_that_a_page_names_exists(seeded: Console) -> None:
    named = set()
    account = "/accounts/cus_8812"
    for target in ("/", "/accounts", account, f"{account}/charges", "/usage", "/events", "/plans", "/history"):
        named |= {unescape(line) for line in re.findall(r"<code>sepu ([^<]*)</code>", seeded.page(target))}
    assert len(named) > 15
    for line in named:
        words = line.split()
        command: click.Command | None = commands
        while isinstance(command, click.Group):
            command = command.get_command(click.Context(command), words.pop(0))
        assert command is not None, line
        options = {word for word in words if word.startswith("-")}
        assert options <= {option for each in command.params for option in each.opts}, line
        needed = [each.opts for each in command.params if each.required and isinstance(each, click.Option)]
        assert all(options & {*opts} for opts in needed), line


def test_the_overview_compares_days_and_marks_an_old_backup(owner: Connection) -> None:
    soon, later = (NOW + timedelta(days) for days in (3, 20))
    issued = accounts.create_account(owner, "standard", expires_at=later)
    change_key(owner, issued.key_id, expires_at=soon)
    state = ServiceState(3, NOW - timedelta(hours=27), ("http://a/metrics",))
    client = TestClient(create_console(lambda: nullcontext(owner), ["falconframework.org"], lambda: state))
    with owner.transaction():  # now() stays the same
        owner.execute(
            "insert into sepu.stored_result select %s, 'order-' || n, sha256('1'), 'color_match', n,"
            " to_char(at at time zone 'UTC', 'YYYY-MM'), '{}', at, %s, gen_random_uuid()"
            " from (values (1, '-24 h'), (2, '-1 us'), (4, '0')) v (n, after),"
            " lateral (select date_trunc('day', now(), 'UTC') + after::interval) t (at)",
            (issued.account_id, issued.key_id),
        )
        old = client.simulate_get("/").text
    for part in ("4 today; yesterday 1 by this time, and 3 in all", "Workers 3 ", "//a/metrics gave no metrics"):
        assert part in plain(old)
    assert re.search('<span class="bad"><time>.*, more than a day ago</span></dd>', old)
    assert re.search(rf"{issued.key_id} – {soon:%Y-%m-%d} \S+ {later:%Y-%m-%d} ", plain(old)), "Ends soon"
    state = ServiceState(3, NOW - timedelta(hours=25))
    assert "more than a day ago" not in client.simulate_get("/").text


def test_an_unexpected_error_is_logged_without_its_message(caplog: pytest.LogCaptureFixture) -> None:
    failing = Mock(side_effect=ValueError("telltale"))
    found = TestClient(create_console(failing, ["falconframework.org"])).simulate_get("/")
    assert (found.status_code, "ValueError" in caplog.text) == (500, True)
    assert "telltale" not in caplog.text + found.text


def test_workers_and_backups_of_the_metrics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "certificate").write_text(certificate().pem)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "certificate"))
    old = 1_790_000_000
    text = '# TYPE sepu_workers gauge\nsepu_workers 3\nx NaN\nsepu_backup_timestamp_seconds{{a="b"}} {}\n'
    texts = [text.format(old).encode(), text.format(old - 86_400).encode(), b"\xff{"]
    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n"
    answers = [*(head % len(each) + each for each in texts), b"HTTP/1.1 401 No\r\nContent-Length: 0\r\n\r\n"]
    with ExitStack() as stack:
        good, late, bad, refused = (
            stack.enter_context(listening("plain", [Peer.head, saying(each), Peer.silence])).url for each in answers
        )
        slowly = [Peer.head, saying(head % 200), lambda peer: peer.drip(b"#")]  # 4 seconds
        slow = stack.enter_context(listening("plain", slowly)).url
        assert read_service_state([slow]) == ServiceState(unread=(slow,))
        monkeypatch.setattr("sepu.console.metrics._SECONDS", 30)  # however busy this machine is
        tls_breaks = stack.enter_context(listening("TLS", [Peer.tls, Peer.head, garbage])).url
        unread = (bad, refused, tls_breaks, "http://127.0.0.1:9/", "nonsense")
        found = read_service_state([late, good, late, *unread])
    assert found == ServiceState(9, datetime.fromtimestamp(old, UTC), unread)
    assert read_service_state([]) == ServiceState()
