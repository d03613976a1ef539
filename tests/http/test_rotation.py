"""A rotation beside traffic: the new key works at once, the old one until the grace is over, and not a moment more."""

from datetime import UTC, datetime, timedelta
from threading import Event, Thread

import psycopg
from tests.serving import Server

from sepu.admin import accounts, receipts
from sepu.admin.plans import set_plan
from sepu.admin.rotation import rotate_key
from sepu.metering.key_format import new_key_id

GRACE = timedelta(seconds=2)


def admitted(server: Server, api_key: str, *, keep: bool = False) -> int:
    return server.request("GET", "/v1/library", {"Authorization": f"Bearer {api_key}"}, keep=keep).status


def test_a_rotation_beside_traffic(server: Server, connection: psycopg.Connection) -> None:
    plan_id = "test-" + new_key_id("plan")
    set_plan(connection, plan_id, {"color_match": 0, "color_search": 0}, requests_per_minute=1_000_000)
    old = accounts.create_account(connection, plan_id)
    private = receipts.new_private_key()
    asked: list[tuple[datetime, int, datetime]] = []
    begun, ended = Event(), Event()

    def ask() -> None:
        while not ended.is_set():
            start = datetime.now(UTC)
            status = admitted(server, old.api_key, keep=True)
            asked.append((start, status, datetime.now(UTC)))
            begun.set()
            if status != 200:
                return

    traffic = Thread(target=ask)
    traffic.start()
    try:
        # With a long grace both keys work, however slow this machine is.
        first = rotate_key(connection, old.account_id, private, "first", timedelta(hours=1))
        second = receipts.unseal(first.receipt.encode(), private).api_key
        assert (admitted(server, second), admitted(server, old.api_key)) == (200, 200)

        assert begun.wait(60)
        made = rotate_key(connection, old.account_id, private, "second", GRACE)
        third = receipts.unseal(made.receipt.encode(), private).api_key
        assert admitted(server, third) == 200
        traffic.join(60)
        assert not traffic.is_alive(), "the old key still works"
    finally:
        ended.set()
        traffic.join()
        server.hang_up()

    # Database, server and test are on one machine, so on one clock.
    end = made.older_keys_expire_at
    *before, (_, status, refused) = asked
    assert status == 401
    assert refused >= end, "it was refused too early"
    assert before
    assert all(start < end for start, _, _ in before), "it was taken too late"
    assert (admitted(server, second), admitted(server, third)) == (401, 200)
