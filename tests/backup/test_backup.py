"""Backup and restore with Postgres's own programs, under traffic; the pages are docs/operate.md."""

import fcntl
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from threading import Event

import pytest
from prometheus_client.parser import text_string_to_metric_families
from psycopg import Connection
from psycopg.conninfo import make_conninfo
from tests.harness.postgres import INSTALLED, Cluster, let_in, run
from tests.harness.processes import completed, until
from tests.harness.proxy import socket_directory
from tests.harness.serving import Response, serving
from tests.keys import made_up_key
from tests.nodes.traffic import crowded, on_plan
from tests.programs import installed

from sepu.admin.audit import audit
from sepu.admin.keys import IssuedKey
from sepu.admin.usage import show_usage
from sepu.database.migrate import migrate
from sepu.database.opening import connect, service_url
from sepu.database.roles import grant, make_role

slow = pytest.mark.slow
ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
SCRIPTS = ROOT / "deploy"
BACKUP = SCRIPTS / "make-backup.sh"


@pytest.fixture
def first() -> Iterator[Cluster]:
    """A cluster that is not initialised yet."""
    with socket_directory() as directory:
        yield Cluster(directory)


@pytest.fixture
def second() -> Iterator[Cluster]:
    with socket_directory() as directory:
        let_in(directory)
        yield Cluster(directory)


@pytest.fixture
def archive() -> Iterator[Path]:
    with socket_directory() as directory:
        let_in(directory)
        yield directory


def usage_of(connection: Connection, issued: IssuedKey) -> int:
    return show_usage(connection, issued.account_id).usage[0].committed


def is_replay_of(answer: Response, told: Response) -> bool:
    return answer.headers.get("idempotency-replayed") == "true" and answer.body == told.body


def base_backup(source: Cluster, target: Cluster, *arguments: str) -> None:
    run(source.programs / "pg_basebackup", "-d", source.url, "-D", target.data, "-c", "fast", "--no-sync", *arguments)


def archive_command(cluster: Cluster, archive: Path) -> str:
    """The setting of docs/operate.md, for a copy of the script: Postgres's user cannot read the sources."""
    script = cluster.directory / "archive"
    shutil.copy(SCRIPTS / "archive-wal.sh", script)
    page = (DOCS / "operate.md").read_text()
    (setting,) = re.findall(r"archive_command = ./usr/local/lib/sepu/archive-wal\.sh (.*)'", page)
    return f"{script} {setting.replace('/var/lib/postgresql/archive', str(archive))}"


def archived(cluster: Cluster, archive: Path) -> None:
    """Makes a cluster that archives."""
    let_in(cluster.directory)
    cluster.initialise(archive_mode="on", archive_command=archive_command(cluster, archive))


def replayed(server: Cluster, archive: Path) -> subprocess.CompletedProcess[str]:
    return completed([SCRIPTS / "check-replayed.sh", archive], env=server.environment)


@contextmanager
def recovering(backup: Cluster, archive: Path, target: str = "") -> Iterator[str]:
    """Runs a copied data directory with the settings of docs/operate.md, as a server that replays the archive."""
    (block,) = re.findall(
        r"tee -a postgresql\.auto\.conf <<'X'\n(.*?)\nX\n", (DOCS / "operate.md").read_text(), re.DOTALL
    )
    settings = dict(re.findall(r"^(\w+) = '?(.*?)'?$", block, re.MULTILINE))
    assert settings.keys() >= {"archive_mode", "restore_command", "recovery_target_time", "primary_conninfo"}
    settings["restore_command"] = settings["restore_command"].replace("/var/lib/postgresql/archive", str(archive))
    backup.configure(**settings | {"recovery_target_time": target})
    (backup.data / "standby.signal").touch()
    with backup.running() as url:
        yield url


def promote(server: Cluster, archive: Path) -> str:
    """Ends the recovery when the script says that it is complete. Returns what it says."""
    until(lambda: replayed(server, archive).returncode == 0, why=lambda: replayed(server, archive).stderr)
    said = replayed(server, archive).stdout
    run(server.programs / "pg_ctl", "-D", server.data, "-w", "promote")
    return said


def creating(database: str, page: str) -> list[str]:
    """The statements with which an operators' page creates a database."""
    block = re.findall(
        rf"^create database {database} .*?(?=^SQL$)", (DOCS / page).read_text(), re.MULTILINE | re.DOTALL
    )
    return [statement for statement in "".join(block).split(";\n") if statement]


@slow
def test_a_dump_taken_beside_traffic_is_restored(first: Cluster, second: Cluster) -> None:
    first.initialise()
    dump = second.directory / "sepu.dump"
    with first.running() as url, connect(url) as connection:
        migrate(connection)
        with serving("uvloop", service_url(url)) as server:
            issued = on_plan(connection)
            told = server.match(issued, "dumped-1")

            def back_up() -> None:
                run(first.programs / "pg_dump", "-d", url, "-Fc", "-f", dump)

            verdict, _ = crowded(connection, [server.address], 400, back_up)
            assert verdict.explain() == ""
            results = audit(connection).results
    assert told.status == 200

    second.initialise()
    with second.running() as url, connect(url) as connection:
        for role in ("sepu_owner", "sepu_service"):  # roles belong to the server and are not dumped
            connection.execute(f"create role {role} login")
        for name, page in (("sepu", "deploy.md"), ("restored", "operate.md")):
            for statement in creating(name, page):
                connection.execute(statement)
        traits = (
            "select datdba::regrole, encoding, datlocprovider, datcollate, datctype, datacl from pg_database"
            " where datname = %s"
        )
        assert connection.execute(traits, ["restored"]).fetchall() == connection.execute(traits, ["sepu"]).fetchall()
        target = url.replace("/postgres?", "/restored?")
        run(second.programs / "pg_restore", "-d", target, "--exit-on-error", dump)
        with connect(target) as restored, serving("uvloop", service_url(target)) as server:
            found = audit(restored)
            assert found.differences == ()
            assert 0 < found.results <= results
            assert is_replay_of(server.match(issued, "dumped-1"), told)
            assert server.match(issued, "dumped-2").status == 200
            assert usage_of(restored, issued) == 2


@slow
@pytest.mark.parametrize("worker", ["uvloop", "gthread"])
def test_live_workers_follow_the_database_that_their_address_leads_to(first: Cluster, worker: str) -> None:
    """First the same one from a dump, then another deployment's: no valid key is refused, nothing restarts."""
    first.initialise()
    dump = first.directory / "sepu.dump"

    def replaced(while_stopped: Callable[[], object] = lambda: None) -> None:
        first.stop("immediate")
        while_stopped()
        first.data.rename(first.directory / f"gone-{len(list(first.directory.iterdir()))}")
        first.initialise()
        first.start()

    with first.running(), connect(first.url) as connection:
        migrate(connection)
        with serving(worker, service_url(first.url)) as server:
            issued = on_plan(connection)
            made_up = replace(issued, api_key=made_up_key(issued.account_id))
            told = server.match(issued, "dumped-1")
            assert server.match(made_up, "dumped-1").status == 401
            run(first.programs / "pg_dump", "-d", first.url, "-Fc", "-f", dump)

            answers, over = list[Response](), Event()

            def ask() -> None:
                while not over.wait(0.02):
                    answers.append(server.match(issued, "dumped-1"))

            with ThreadPoolExecutor(1) as threads, ExitStack() as ending:
                ending.callback(over.set)  # the thread ends after a failure too
                asking = threads.submit(ask)
                replaced(lambda: until(lambda: answers and answers[-1].status == 503))
                with connect(first.url) as restored:
                    restored.execute("create role sepu_service login")
                    # Closed to the service until it is complete; docs/operate.md uses another name instead.
                    restored.execute("alter role sepu_service connection limit 0")
                    run(first.programs / "pg_restore", "-d", first.url, "--exit-on-error", dump)
                    restored.execute("alter role sepu_service connection limit -1")
                count = len(answers)
                until(lambda: len(answers) > count + 1 and is_replay_of(answers[-1], told))
                over.set()
                asking.result(30)
            assert {answer.status for answer in answers} == {200, 503}
            # Without a session, a worker cannot yet tell that the database has no such key.
            until(lambda: server.match(made_up, "dumped-2").status == 401)
            assert server.match(issued, "dumped-2").status == 200

            replaced()
            with connect(first.url) as other:
                migrate(other)
                make_role(other, "sepu_service", "service")
                foreign = on_plan(other)
                seen = {503}

                def is_served() -> bool:
                    seen.add(server.match(foreign, "foreign-1").status)
                    return 200 in seen

                until(is_served)
                assert seen == {200, 503}, "never 401: the key is of this database"
                assert server.match(issued, "dumped-1").status == 401


@slow
@pytest.mark.skipif(not INSTALLED, reason="no other Postgres is installed (Debian: apt install postgresql)")
@pytest.mark.parametrize("programs", INSTALLED, ids=lambda path: path.parent.name)
def test_the_trial_moves_to_a_postgres_of_ones_own(first: Cluster, second: Cluster, programs: Path) -> None:
    """By the commands of docs/deploy.md; the embedded Postgres may be newer than the other one."""
    page = (DOCS / "deploy.md").read_text().partition("## From the trial")[2]
    ((mask, dump),) = re.findall(
        r"^\$ \((umask .*?); .*?/bin/pg_dump'\)\" .*? (-n sepu .*?) > trial\.sql\)$", page, re.MULTILINE | re.DOTALL
    )
    (load,) = re.findall(r"^# psql service=sepu (.*) --file trial\.sql$", page, re.MULTILINE)
    script = second.directory / "trial.sql"
    first.initialise()
    with first.running() as url, connect(url) as connection:
        migrate(connection)
        with serving("uvloop", service_url(url)) as server:
            issued = on_plan(connection)
            told = server.match(issued, "trial-01")
        dumped = completed(["bash", "-ec", f"({mask}; {first.programs}/pg_dump -d '{url}' {dump} > {script})"])
        assert dumped.returncode == 0, dumped.stderr
        let_in(script)

    own = Cluster(second.directory, programs=programs)
    own.initialise()
    with own.running() as url, connect(url) as connection:
        for role in ("sepu_owner", "sepu_service"):
            connection.execute(f"create role {role} login")
        for statement in creating("sepu", "deploy.md"):
            connection.execute(statement)
        as_owner = make_conninfo(url, dbname="sepu", user="sepu_owner")
        # The embedded psql: the \\restrict of a newer dump needs a newer psql.
        run(first.programs / "psql", "-d", as_owner, *load.split(), "--file", script)
        with connect(as_owner) as owner:
            assert migrate(owner) == []
            grant(owner, "sepu_service", "service")
            assert audit(owner).results == 1
            with serving("uvloop", make_conninfo(as_owner, user="sepu_service")) as server:
                assert is_replay_of(server.match(issued, "trial-01"), told)
                assert server.match(issued, "trial-02").status == 200
            assert usage_of(owner, issued) == 2


@slow
def test_recovery_to_a_moment(first: Cluster, second: Cluster, archive: Path) -> None:
    archived(first, archive)
    told: dict[str, Response] = {}
    moment = ""
    with first.running() as url, connect(url) as connection, connect(url) as beside:
        migrate(connection)
        with serving("uvloop", service_url(url)) as server:
            issued = on_plan(connection)

            def back_up_and_regret() -> None:
                nonlocal moment
                told["earliest"] = server.match(issued, "earliest")
                base_backup(first, second)
                told["before"] = server.match(issued, "before-1")
                ((moment,),) = beside.execute("select clock_timestamp()::text").fetchall()
                told["after"] = server.match(issued, "after-01")

            verdict, _ = crowded(connection, [server.address], 400, back_up_and_regret)
            assert verdict.explain() == ""
        assert {answer.status for answer in told.values()} == {200}
        results = audit(connection).results
        ((segment,),) = beside.execute("select pg_walfile_name(pg_switch_wal())").fetchall()
        until(lambda: (archive / segment).exists())

    with recovering(second, archive, moment) as url, connect(url) as connection:
        assert promote(second, archive).startswith("paused at the target, last commit ")
        found = audit(connection)
        assert found.differences == ()
        assert 2 <= found.results < results
        assert connection.execute("select count(*) from sepu.request_rate").fetchone() == (0,)
        assert usage_of(connection, issued) == 2
        with serving("uvloop", service_url(url)) as server:
            assert is_replay_of(server.match(issued, "earliest"), told["earliest"])
            assert is_replay_of(server.match(issued, "before-1"), told["before"])
            # Charges of the lost period are unknown; the customer's retry is executed and charged again.
            again = server.match(issued, "after-01")
            assert (again.status, again.headers.get("idempotency-replayed")) == (200, None)
            assert again.body == told["after"].body
            assert is_replay_of(server.match(issued, "after-01"), again)
        assert usage_of(connection, issued) == 3
        assert audit(connection).differences == ()


def test_old_backups_are_deleted_with_their_wal_and_the_oldest_kept_can_be_recovered(
    first: Cluster, second: Cluster, archive: Path, tmp_path: Path
) -> None:
    archived(first, archive)
    by_hand = tmp_path / "2026-11-21"
    by_hand.mkdir()
    (tmp_path / "2026-11-20T021000.part").mkdir()
    broken = tmp_path.parent / "broken"  # programs that fail
    broken.mkdir()

    def back_up(keep: int = 2, archive: Path = archive) -> subprocess.CompletedProcess[str]:
        environment = first.environment
        environment["PATH"] = f"{broken}:{environment['PATH']}"
        return completed([BACKUP, tmp_path, str(keep), archive], env=environment)

    def made() -> list[Path]:
        return sorted(path for path in tmp_path.iterdir() if path != by_hand)

    with first.running() as url, connect(url) as connection:
        connection.execute("create table written (number integer)")
        kept: list[list[Path]] = []
        for number in range(3):
            connection.execute("insert into written values (%s)", [number])
            there = archive if number else archive / "absent"
            done = back_up(archive=there)
            assert done.returncode == 0, done.stderr
            assert done.stderr == ("" if number else f"backup: there is no directory {there}, so no WAL was deleted\n")
            kept.append(made())
            until(lambda: datetime.now(UTC).strftime("%Y-%m-%dT%H%M%S") > kept[-1][-1].name)  # a name has whole seconds
        # The clock was once wrong: the new backup is not the newest, so it is unclear which ones are old.
        future = tmp_path / "2999-01-01T000000"
        future.mkdir()
        refused = back_up(keep=1)
        assert (refused.returncode, refused.stdout) == (1, "")
        assert future.name in refused.stderr
        assert {*kept[2], future} < {*made()}
        future.rmdir()
        shutil.rmtree(next(path for path in made() if path not in kept[2]))
        connection.execute("insert into written values (3)")
        ((segment,),) = connection.execute("select pg_walfile_name(pg_switch_wal())").fetchall()
        until(lambda: (archive / segment).exists())
        # The unwritten rest of a segment takes no space in the archive.
        assert (archive / segment).stat().st_blocks * 512 < (archive / segment).stat().st_size / 2
    assert [len(found) for found in kept] == [1, 2, 2]
    assert kept[2] == [kept[1][1], kept[2][1]]
    assert by_hand.exists()
    for name in ("df", "du"):
        (broken / name).symlink_to("/bin/false")
        spoilt = back_up()
        assert (spoilt.returncode != 0, spoilt.stdout) == (True, "")  # a gauge without a value spoils the whole file
        (broken / name).unlink()
    families = text_string_to_metric_families(done.stdout)
    gauges = {sample.name: sample.value for found in families for sample in found.samples}
    assert gauges.keys() == {"sepu_backup_timestamp_seconds", "sepu_backup_bytes", "sepu_backup_free_bytes"}
    assert gauges["sepu_backup_bytes"] >= sum(path.stat().st_size for path in kept[2][1].iterdir())
    assert 0.1 < gauges["sepu_backup_free_bytes"] / shutil.disk_usage(tmp_path).free < 10

    # The server is gone: a failed backup deletes nothing.
    failed = back_up(keep=1)
    assert failed.returncode != 0
    assert failed.stdout == ""
    assert made() == kept[2]
    assert back_up(keep=0).returncode != 0
    held = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    assert back_up().stderr == "backup: another one is running\n"
    os.close(held)

    first_kept, _ = kept[2]
    (label,) = re.findall(
        r"\(file (\w{24})\)",
        completed(["/bin/sh", "-c", f"tar -xzOf {first_kept}/base.tar.gz backup_label"]).stdout.splitlines()[0],
    )
    segments = sorted(path.name for path in archive.iterdir() if re.fullmatch(r"\w{24}", path.name))
    assert segments[0] == label, "no segment before the oldest backup, and this one"
    second.data.mkdir(mode=0o700)
    assert completed(["/bin/sh", "-c", f"tar -xzf {first_kept}/base.tar.gz -C {second.data}"]).returncode == 0
    for path in (second.data, *second.data.rglob("*")):
        let_in(path)
    with recovering(second, archive) as url, connect(url) as connection:
        assert promote(second, archive).startswith(f"all of the archive, to {segments[-1]}, last commit ")
        assert connection.execute("select count(*) from written").fetchone() == (4,)


@slow
def test_a_gap_in_the_archive_ends_no_recovery_in_silence(first: Cluster, second: Cluster, archive: Path) -> None:
    archived(first, archive)
    segments = []
    with first.running() as url, connect(url) as connection:
        connection.execute("create table written (number integer)")
        base_backup(first, second)
        for number in range(3):
            connection.execute("insert into written values (%s)", [number])
            ((segment,),) = connection.execute("select pg_walfile_name(pg_switch_wal())").fetchall()
            segments.append(segment)
        until(lambda: (archive / segments[-1]).exists())
    _, missing, newest = segments
    (archive / missing).rename(archive / "elsewhere")
    (archive / newest).rename(archive / "unread")
    (archive / newest).mkdir()
    with recovering(second, archive) as url, connect(url) as connection:
        until(lambda: connection.execute("select count(*) from written").fetchone() == (1,))
        until(lambda: f"{missing[8:]} is missing" in replayed(second, archive).stderr)
        assert replayed(second, archive).returncode == 1
        assert newest in replayed(second, archive).stderr
        assert connection.execute("select pg_is_in_recovery()").fetchone() == (True,)
        (archive / "elsewhere").rename(archive / missing)
        until(lambda: f"not yet; {newest[8:]} is next" in replayed(second, archive).stderr)
        (archive / newest).rmdir()
        (archive / "unread").rename(archive / newest)
        assert promote(second, archive).startswith(f"all of the archive, to {newest}, last commit ")
        assert connection.execute("select count(*) from written").fetchone() == (3,)
        told = replayed(second, archive)
        assert (told.returncode, "promoted already" in told.stderr) == (1, True)


@pytest.mark.parametrize(
    ("replayed", "newest", "state"),
    [
        ("0/2000000", "000000010000000000000002", "0000000000000002"),
        ("0/2000001", "000000010000000000000002", "all"),
        ("1/0", "000000010000000100000000", "0000000100000000"),
        ("1/1", "000000020000000100000000", "all"),
    ],
)
def test_a_segment_is_replayed_once_a_byte_of_it_is(
    connection: Connection, replayed: str, newest: str, state: str
) -> None:
    _, _, statement = (ROOT / "deploy" / "check-replayed.sh").read_text().partition("<<'SQL'\n")
    given = {"pg_last_wal_replay_lsn()": f"pg_lsn '{replayed}'", ":'newest'": f"'{newest}'"}
    given |= {"pg_is_in_recovery()": "true", "pg_get_wal_replay_pause_state()": "''"}
    for asked, answer in given.items():
        statement = statement.replace(asked, answer)
    row = connection.execute(statement.partition("\nSQL\n")[0].encode()).fetchone()
    assert row is not None
    assert row[0] == state


def test_the_archive_command_survives_its_own_crash(tmp_path: Path) -> None:
    segment, copy = tmp_path / "segment", tmp_path / "copy"
    segment.write_bytes(bytes(1 << 20) + b"WAL")

    def archive(environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        return completed([SCRIPTS / "archive-wal.sh", segment, copy], env=environment)

    (tmp_path / "copy.part").write_bytes(b"half of a segment, from before the crash" * 100_000)
    assert archive().returncode == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy", "segment"]
    assert copy.read_bytes() == segment.read_bytes()
    assert archive().returncode == 0  # Postgres crashed before it noted the success

    for damage in (b"", b"another cluster's"):
        copy.write_bytes(damage)
        refused = archive()
        assert refused.returncode == 1
        assert f"{copy} is from another cluster, or damaged" in refused.stderr
        assert copy.read_bytes() == damage

    # Content reaches the disk before the name, and both before Postgres may delete its own segment.
    copy.unlink()
    programs, called = tmp_path / "programs", tmp_path / "called"
    programs.mkdir()
    for name in ("mv", "sync"):
        (programs / name).write_text(f'#!/bin/sh\necho "{name} $*" >> {called}\nexec {installed(name)} "$@"\n')
        (programs / name).chmod(0o755)
    assert archive({"PATH": f"{programs}:{os.environ['PATH']}"}).returncode == 0
    assert called.read_text().splitlines() == [f"sync {copy}.part", f"mv -T {copy}.part {copy}", f"sync {tmp_path}"]
    for name in ("cp", "sync", "mv"):  # Postgres tries again what failed
        copy.unlink(missing_ok=True)
        (tmp_path / name).mkdir()
        (tmp_path / name / name).symlink_to("/bin/false")
        assert archive({"PATH": f"{tmp_path / name}:{os.environ['PATH']}"}).returncode != 0
        assert not copy.exists()
