"""Calls that wait: their order and turns."""

from typing import Any

from sepu.metering.calls import FairQueue, PendingCall
from sepu.metering.commands import Charge, Command, admit, meter_request
from sepu.metering.key_format import Credential


def charge(account: str) -> Command[Any]:
    return meter_request(Credential(account, b""), "key-0001", Charge("color_match", 1, b"", b""))


def accounts_taken(queue: FairQueue, most: int, busy: frozenset[str] = frozenset()) -> list[str]:
    return [call.turn for call in queue.take(most, busy)]


def queue_of(*commands: Command[Any]) -> FairQueue:
    queue = FairQueue()
    for command in commands:
        queue.add(PendingCall(command, lambda _: None, 0.0))
    return queue


def test_a_call_of_another_statement_keeps_its_turn() -> None:
    charges = [charge(account) for _ in range(4) for account in "ab"]
    queue = queue_of(charges[0], admit(Credential("other", b"")), *charges[1:])
    assert accounts_taken(queue, 2) == ["a", "b"]
    assert accounts_taken(queue, 2) == ["other"]
    assert accounts_taken(queue, 2) == ["a", "b"]


def test_a_busy_account_keeps_its_turn() -> None:
    queue = queue_of(charge("busy"), *(charge(account) for _ in range(4) for account in "ab"))
    assert accounts_taken(queue, 3, frozenset({"busy"})) == ["a", "b", "a"]
    assert accounts_taken(queue, 3) == ["busy", "b", "a"]
