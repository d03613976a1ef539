"""What the ledger holds, compared with what the clients were told."""

import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import psycopg
from tests.faults.clients import Ask, Memory

from sepu.cli.database import connect
from sepu.metering.audit import audit

STORED = "select account_id, idempotency_key, meter, units, body from sepu.stored_result"
COMMITTED = "select account_id, meter, sum(committed) from sepu.usage group by 1, 2"
OVERSHOT = """
    select u.account_id, u.period, u.meter, u.committed
      from sepu.usage u join sepu.account using (account_id) left join sepu.plan_limit l using (plan_id, meter)
     where u.committed > coalesce(l.units, 0)
"""


@dataclass(frozen=True)
class Verdict:
    """Each list names what is wrong; all are empty if the promise was kept."""

    lost: list[str]  # answered, but not stored as it was answered
    doubled: list[str]  # charged otherwise than once for each answer
    stuck: list[str]  # not answered in time
    wrong: list[str]  # what no client should see, and quotas overshot

    def __str__(self) -> str:
        return ", ".join(f"{len(found)} {name}" for name, found in vars(self).items())

    @property
    def findings(self) -> list[str]:
        return [f"{name}: {finding}" for name, found in vars(self).items() for finding in found]


def until_stored(url: str, results: int) -> None:
    """Waits until the ledger holds so many results: until clients have been served."""
    with connect(url) as watching:
        while watching.execute("select count(*) >= %s from sepu.stored_result", [results]).fetchall() != [(True,)]:
            time.sleep(0.02)


def judge(connection: psycopg.Connection, asked: Iterable[Ask], memory: Memory) -> Verdict:
    """Judges a database that nobody but these clients used."""
    lost, stuck, wrong = list[str](), list[str](), list(memory.wrong)
    doubled = [str(difference) for difference in audit(connection).differences]
    stored = {(account, key): row for account, key, *row in connection.execute(STORED)}
    due: Counter[tuple[str, str]] = Counter()
    for ask in asked:
        if ask.name in memory.stuck:
            stuck.append(str(ask))
        meter, units, body = stored.pop(ask.name, (None, 0, None))
        if ask.name in memory.answered:
            due[ask.holder.account_id, ask.meter] += ask.units
            if body != memory.answered[ask.name]:
                lost.append(f"{ask} was told {memory.answered[ask.name]!r}, and stored is {body!r}")
            elif (meter, units) != (ask.meter, ask.units):
                doubled.append(f"{ask} was charged {units} {meter}")
        elif body is not None:
            wrong.append(f"{ask} was refused, and is stored")
    doubled += [f"{name} was stored and never asked" for name in stored]
    committed = {(account, meter): int(units) for account, meter, units in connection.execute(COMMITTED)}
    doubled += [
        f"{name}: {due[name]} units were answered, {committed.get(name, 0)} committed"
        for name in due.keys() | committed.keys()
        if due[name] != committed.get(name, 0)
    ]
    wrong += [f"overshot: {row}" for row in connection.execute(OVERSHOT)]
    return Verdict(lost, doubled, stuck, wrong)
