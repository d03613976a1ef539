"""The primary fails over to its standby: the service follows, and earlier charges are kept."""

import asyncio
from urllib.parse import quote

import pytest
from tests.faults.history import History
from tests.faults.verdict import contradictory
from tests.harness.injection import stop_at_once
from tests.harness.processes import until
from tests.harness.serving import serving
from tests.harness.standby import await_replay, replicated

from sepu.admin.audit import audit
from sepu.admin.usage import show_usage

BACK_SECONDS = 1 + 5  # the promise, plus allowance for a busy machine


@pytest.mark.parametrize(
    ("worker", "old_primary"),
    [
        ("uvloop", "alive and read-only"),
        pytest.param("uvloop", "dead", marks=pytest.mark.slow),
        pytest.param("gthread", "alive and read-only", marks=pytest.mark.slow),
        pytest.param("gthread", "dead", marks=pytest.mark.slow),
    ],
)
def test_the_service_follows_a_failover_at_once(worker: str, old_primary: str) -> None:
    with replicated() as (first, (second, _), primary, standby, issued):
        # Without target_session_attrs, which the service sets by itself.
        hosts = ",".join(quote(str(state_dir / "socket"), safe="") for state_dir in (first, second))
        with serving(worker, f"postgresql://sepu@/postgres?host={hosts}", workers=1) as server:
            history = History()
            answers = {key: history.match(server, issued, key) for key in ("failover-1", "failover-2")}
            assert {answer.status for answer in answers.values()} == {200}
            await_replay(primary, standby)

            if old_primary == "dead":
                asyncio.run(stop_at_once(first))
            else:  # it still answers existing connections
                primary.execute("alter system set default_transaction_read_only = on")
                primary.execute("select pg_reload_conf()")
            standby.execute("select pg_promote()")
            until(lambda: history.match(server, issued, "failover-3").status == 200, seconds=BACK_SECONDS)

            assert all(history.match(server, issued, key).body == answer.body for key, answer in answers.items())
            assert contradictory(standby, history) == []
            assert audit(standby).differences == ()
            assert show_usage(standby, issued.account_id).usage[0].committed == 3
            if old_primary != "dead":
                assert show_usage(primary, issued.account_id).usage[0].committed == 2
