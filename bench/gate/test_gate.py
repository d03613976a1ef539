"""The judgement of the gate, and what it says."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from unittest.mock import AsyncMock

import pytest
from bench import commits
from bench.gate import __main__ as gate
from bench.gate import count, opcodes, sides
from bench.gate.costs import Accepted, accepted, line
from bench.gate.database import DEFINITIONS, numbered
from bench.gate.explain import lines
from bench.gate.sides import OPCODES, STATEMENTS, Comparison, Counts
from bench.recorded import MOST, SEED, charge, holder
from tests.harness import callgrind
from tests.harness.accounts import open_accounts
from tests.harness.processes import completed
from tools.dist.contents import ROOT

from sepu.database.opening import connect

pytestmark = pytest.mark.slow

BASE = {
    "core": 500.0,
    "core: CIEDE2000": 1000.0,
    "request: match": 1000.0,
    "system calls: request: match": 400.0,
    "SQL: admission, WAL bytes": 0.0,
}


def judged(
    head: Mapping[str, float], *costs: Accepted, gone: set[str] | None = None, failures: Mapping[str, str] | None = None
) -> dict[str, gate.Row]:
    found = Comparison(Counts(dict(BASE)), Counts({**BASE, **head}, dict(failures or {})), gone or set())
    return {row.name: row for row in gate.rows(found, costs)}


def cost(path: str, percent: float | None = 3.0) -> Accepted:
    return Accepted("abc", path, percent, "safer")


@pytest.mark.parametrize(
    ("name", "figure", "costs", "alarms", "verdict"),
    [
        ("core", 502.4, [], False, ""),
        ("core", 502.6, [], True, "**slower**"),
        ("core: CIEDE2000", 1000.9, [], False, ""),
        ("core: CIEDE2000", 1001.1, [], True, "**slower**"),
        ("core", 497.6, [], False, ""),
        ("core", 490, [], False, "faster"),
        ("SQL: admission, WAL bytes", 8, [], True, "**slower**"),
        ("system calls: request: match", 401, [], True, "**slower**"),
        ("system calls: request: match", 401, [cost("system calls: *", 0.3)], False, "accepted: safer (abc)"),
        ("new", 1, [], False, "new"),
        ("request: match", 1030, [cost("request: match")], False, "accepted: safer (abc)"),
        ("request: match", 1030, [cost("request: *")], False, "accepted: safer (abc)"),
        ("request: match", 1030, [cost("request: match", 2.0)], True, "**slower**, more than accepted"),
        ("request: match", 1030, [cost("request: search")], True, "**slower**"),
        ("request: match", 1030, [cost("request: match", None)], True, "**slower**"),
        ("request: match", 1030, [cost("*", 2.0), cost("*", 1.0)], False, "accepted: safer (abc); safer (abc)"),
    ],
)
def test_a_figure_may_grow_by_half_a_percent_and_by_what_was_accepted(
    name: str, figure: float, costs: list[Accepted], alarms: bool, verdict: str
) -> None:
    rows = judged({name: figure}, *costs)
    assert (rows[name].alarms, rows[name].verdict) == (alarms, verdict)
    assert not any(row.alarms for row in rows.values() if row.name != name)


def test_a_path_that_is_gone_or_cannot_be_counted_is_an_alarm_until_it_is_accepted() -> None:
    assert judged({}, failures={"new": "TypeError: no"})["new"].alarms
    assert judged({}, gone={"old"})["old"].alarms
    assert not judged({}, Accepted("abc", "old", None, "renamed"), gone={"old"})["old"].alarms
    assert judged({}, Accepted("abc", "old", 99.0, "renamed"), gone={"old"})["old"].alarms


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with two commits on main, in which the gate works."""
    monkeypatch.setattr(commits, "ROOT", tmp_path)
    commits.git("init", "--quiet", "--initial-branch=main")
    for setting in ("user.name=a", "user.email=a@example.org", "commit.gpgsign=false"):
        commits.git("config", *setting.split("="))
    commit(tmp_path, "first")
    commit(tmp_path, "second")
    return tmp_path


def commit(repository: Path, name: str, *trailers: str) -> str:
    (repository / "src").mkdir(exist_ok=True)
    (repository / "src" / name).write_text(name)
    commits.git("add", "--all")
    commits.git("commit", "--quiet", "-m", "\n\n".join([name, "\n".join(trailers)]))
    return commits.git("rev-parse", "HEAD")


def test_costs_are_read_from_the_messages_of_the_commits(repository: Path) -> None:
    base = commit(repository, "before", "Cost: core +9 %: long ago")
    third = commit(repository, "third", "Cost: request: match +3.5 %: safer", "Cost: core gone: renamed")
    costs = list(accepted(base))
    assert [cost[1:] for cost in costs] == [("request: match", 3.5, "safer"), ("core", None, "renamed")]
    assert third.startswith(costs[0].commit)
    assert [cost.reason for cost in accepted("")] == ["safer", "renamed", "long ago"]
    for name, percent in (("request: match", 3.5), ("core", None)):
        commit(repository, f"{name}-{percent}", line(name, percent))
        assert next(accepted("HEAD^"))[1:] == (name, percent, "<the reason>")


def test_only_what_may_have_changed_is_counted(repository: Path) -> None:
    def changed() -> list[str]:
        return sides.changed("HEAD", commits.working_tree())

    (repository / "README.md").write_text("read me")
    assert changed() == []
    (repository / "src" / "new").write_text("x = 1")
    assert changed() == ["worker"]
    (repository / "src" / "sepu" / "database").mkdir(parents=True)
    (repository / "src" / "sepu" / "database" / "new.sql").write_text("select 1")
    assert changed() == ["worker", "database"]
    (repository / "src" / "sepu" / "library").mkdir()
    (repository / "src" / "sepu" / "library" / "new").write_text("x = 1")
    assert changed() == ["core", "worker", "database"]
    commit(repository, "all")
    (repository / "requirements").mkdir()
    (repository / "requirements" / "embedded.txt").write_text("falcon==4.4.0")
    assert changed() == ["core", "worker", "database"]


def test_where_nothing_can_be_counted_the_gate_fails_and_says_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(callgrind, "valgrind", lambda: None)
    for command in ("check", "bisect"):
        with pytest.raises(SystemExit, match="apt install valgrind"):
            gate.main(command)


@pytest.mark.parametrize(
    ("history", "valgrind", "told"),
    [(1, True, "NO GATE: this checkout has no commit"), (2, False, "NO GATE: there is no valgrind"), (2, True, None)],
)
def test_a_change_lands_without_the_gate_only_where_nothing_can_be_compared(
    tmp_path: Path, history: int, valgrind: bool, told: str | None
) -> None:
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "run", tmp_path / ".ci" / "run")
    (tmp_path / "Makefile").write_text("test-all:\nbench-gate:\n\texit 1\n")
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("bash", "dirname", "git", "make", "sh"):
        (programs / name).symlink_to(str(shutil.which(name)))
    if valgrind:
        (programs / "valgrind").symlink_to(str(shutil.which("true")))
    commit = ["-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "--quiet", "--allow-empty", "-m", "a"]
    for command in (["init", "--quiet"], *[commit] * history):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    environment = {**os.environ, "PATH": str(programs), "GIT_CEILING_DIRECTORIES": str(tmp_path.parent)}
    done = completed([tmp_path / ".ci" / "run"], env=environment)
    assert (done.returncode == 0, "NO GATE" in done.stderr) == (told is not None, told is not None)
    assert told is None or done.stderr.startswith(told)


def test_an_alarm_ends_the_gate_with_the_lines_that_accept_it(
    repository: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    summary = tmp_path_factory.mktemp("github") / "summary"
    found = Comparison(Counts(dict(BASE)), Counts({**BASE, "core": 510}), set())
    monkeypatch.setattr(callgrind, "valgrind", lambda: "valgrind")
    monkeypatch.setattr(gate, "compare", AsyncMock(return_value=found))
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    with pytest.raises(SystemExit, match=r"ALARM: core$"):
        gate.main()
    told = capsys.readouterr().out
    assert "| core | 500 | 510 | +2.00% | **slower** |" in told
    assert "    Cost: core +2.0 %: <the reason>" in told
    assert told in summary.read_text()
    assert (repository / "build" / "gate.md").read_text() == told.rstrip("\n")
    (repository / "build" / "gate.md").unlink()
    commits.git("commit", "--quiet", "--amend", "-m", "second\n\nCost: core +2.0 %: it is worth it")
    gate.main()
    assert "accepted: it is worth it" in capsys.readouterr().out


def test_a_recorded_postgres_answers_as_the_real_one_did(database_url: str) -> None:
    with connect(database_url) as owner:
        open_accounts(owner, SEED, MOST)
    # A round asserts that each of its charges was charged.
    program = f"""from bench.recorded import Recorded; r = Recorded({database_url!r}, {MOST})
assert r.batcher._sweep_timer is None, "what a charge takes depends on the time that its recording took"
r.round(); r.round()"""
    for _ in range(sides.LAYOUTS):  # nothing is replayed in the second process
        subprocess.run([sys.executable, "-c", program], cwd=ROOT, env={**os.environ, "PYTHONPATH": "."}, check=True)
    with connect(database_url) as owner:
        assert owner.execute(
            "select count(*) from sepu.stored_result where idempotency_key like 'recorded-%'"
        ).fetchall() == [(sides.LAYOUTS * 3 * MOST,)]


def test_the_base_is_where_a_branch_left_main_and_on_main_the_commit_before(repository: Path) -> None:
    first, second = commits.git("rev-parse", "HEAD^"), commits.git("rev-parse", "HEAD")
    commits.git("switch", "--quiet", "--create", "branch")
    commit(repository, "third")
    assert commits.base(commit(repository, "fourth")) == second
    assert commits.base(second) == first
    with pytest.raises(SystemExit, match="git fetch --unshallow"):
        commits.base(first)


# --- what an alarm says


def test_an_alarm_names_the_function_and_the_import_that_have_grown() -> None:
    def loop(turns: int) -> None:
        for _ in range(turns):
            pass

    def request(turns: int) -> None:
        loop(turns)

    counts = [{OPCODES: opcodes.executed(partial(request, turns))} for turns in (1, 30)]
    _, name, unit, *_ = next(line for line in lines("x", *counts) if "opcodes" in line).splitlines()[-1].split("|")
    assert "loop" in name
    assert "request" not in name
    assert unit.strip() == OPCODES
    assert not list(lines("x", counts[0], counts[0]))
    stack = "import sepu.server;import sepu.http;import json;import json.decoder;compile (re.py)"
    assert opcodes.function(stack) == "import json, by sepu.http"
    assert opcodes.function("import sepu.http;f (sepu/http/a.py)") == "import sepu.http"
    assert opcodes.function("g (a.py);f (b.py)") == "f (b.py)"


def test_calls_are_counted_whoever_calls() -> None:
    dump = "fn=f\ncfn=recv\ncalls=3 7\n12 900\ncob=/lib/libc.so\ncfn=__libc_send\ncalls=2 7\n1 4\n"
    assert callgrind.calls(f"{dump}cfn=malloc\ncalls=9 7\n1 4\nfn=g\ncfn=recv'2\ncalls=4 7\n") == 9


def test_a_figure_is_of_the_least_block_and_of_whole_calls(tmp_path: Path) -> None:
    blocks = []
    for number, (instructions, sent, allocated) in enumerate([(2000, 23, 300), (1000, 20, 309), (3000, 44, 315)]):
        (file := tmp_path / str(number)).write_text(f"fn=f\ncfn=send\ncalls={sent} 7\n1 9\ntotals: {instructions}\n")
        blocks.append((str(file), allocated, 10 * allocated))
    found = count.figures("request: x", blocks)
    calls = {"allocations: request: x": 30, "allocated bytes: request: x": 300, "system calls: request: x": 2}
    assert found == {"request: x": 100, **calls}
    assert count.figures("start-up: x", blocks[:1]) == {"start-up: x": 2000}


def test_bytes_are_counted_as_they_are_asked_for(tmp_path: Path) -> None:
    if callgrind.valgrind() is None:
        pytest.skip(callgrind.NEEDED)
    code = """import ctypes
total = ctypes.c_size_t.in_dll(ctypes.CDLL(None), "allocated_bytes")
before = total.value
held = bytearray(1_000_000); print(total.value - before)"""
    environment = {**os.environ, "PYTHONMALLOC": "malloc", "LD_PRELOAD": callgrind.library(tmp_path)}
    done = completed([sys.executable, "-c", code], env=environment)
    assert 1_000_000 < int(done.stdout) < 1_001_000, done.stderr


def test_an_alarm_names_the_statement_within_the_ledgers_functions(database_url: str) -> None:
    labels: list[str] = []
    reached: list[str] = []
    with connect(database_url) as owner:
        open_accounts(owner, SEED, 1)
        owner.add_notice_handler(lambda notice: reached.append(labels[int(str(notice.message_primary).split()[1])]))
        for name, definition in owner.execute(DEFINITIONS).fetchall():
            owner.execute(numbered(name, definition, labels).encode())
        command = charge(holder(1))
        assert command.read(owner.execute(command.statement, command.parameters).fetchall()).outcome == "charged"
    assert reached[0].startswith("meter_request: ")
    assert "meter_request: return sepu.meter_one(" in "\n".join(reached)
    assert "authenticate: select k.key_id, k.used_until > p_now into key_id" in "\n".join(reached)
    assert reached[-1] == "meter_one: return v;"
    grown = [{STATEMENTS: {label: turn * (label == reached[3]) for label in labels}} for turn in (100, 300)]
    assert reached[3] in "\n".join(lines("SQL: charge", *grown))


def test_native_functions_have_only_their_own_instructions() -> None:
    dump = "ob=/lib/libm.so\nfn=sin\n12 5\ncfn=cos\ncalls=1 7\n12 900\nfn=0x1234\n4 1\n\nfn=cos'2\n4 9\n"
    assert callgrind.functions(dump) == {"sin (libm.so)": 5, "(no name) (libm.so)": 1, "cos (libm.so)": 9}
