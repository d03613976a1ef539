"""`sepu account import`."""

import csv
import errno
import json
import os
import resource
import stat
from pathlib import Path

import psycopg
import pytest
from tests.cli.running import Pair, Run, assert_failed, lines, printed
from tests.keys import admitted

PLAN = ("plan", "set", "gold", "--match-limit", "9", "--search-limit", "9", "--requests-per-minute", "9")


@pytest.fixture
def customers(tmp_path: Path) -> Path:
    path = tmp_path / "customers.csv"
    path.write_text(
        "\ufeffexternalId,name,planId,expiresAt\n"
        'cus_1,"Silk, Ltd.",,2098-12-31\n'
        "cus_2,茶馆,gold,2099-01-31T12:00:00Z\n"
        "dir/cus:3@silk,,,2098-12-31\n",
        encoding="utf-8",
    )
    return path


def kept(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.read_text().splitlines()))


def test_an_import_and_its_repetition(
    run: Run, connection: psycopg.Connection, customers: Path, tmp_path: Path
) -> None:
    run(*PLAN)
    keys = tmp_path / "keys.csv"
    command = ("account", "import", str(customers), "--keys-file", str(keys), "--json")
    dry = run("account", "import", str(customers), "--dry-run", "--json")
    made = [json.loads(line) for line in dry.stdout.splitlines()]
    assert [(line["outcome"], line["accountId"]) for line in made] == [("made", None)] * 3
    assert dry.stderr == (
        "sepu: 2098-12-31 is taken to its end in UTC: 2099-01-01T00:00:00Z\n"
        "sepu: accounts: made 3, exists 0, differs 0\n"
        "sepu: nothing was changed\n"
    )
    assert lines(run("account", "list", "--json")) == []

    made = [json.loads(line) for line in run(*command).stdout.splitlines()]
    assert [(line["line"], line["outcome"]) for line in made] == [(2, "made"), (3, "made"), (4, "made")]
    assert stat.S_IMODE(keys.stat().st_mode) == 0o600
    rows = kept(keys)
    assert [(row["externalId"], row["accountId"]) for row in rows] == [
        (line["externalId"], line["accountId"]) for line in made
    ]
    assert {admitted(connection, row["apiKey"]) for row in rows} == {"ok"}
    listed = {each["externalId"]: each for each in lines(run("account", "list", "--json"))}
    assert [[listed[name][column] for column in ("name", "planId", "expiresAt")] for name in sorted(listed)] == [
        ["Silk, Ltd.", "standard", "2099-01-01T00:00:00Z"],
        ["茶馆", "gold", "2099-01-31T12:00:00Z"],
        [None, "standard", "2099-01-01T00:00:00Z"],
    ]

    with customers.open("a") as file:
        file.write("cus_4,New,,\n")
    run("account", "set", "cus_1", "--name", "Silk")
    run("account", "move", "cus_2", "--plan", "standard")
    done = run(*command)
    assert done.returncode == 1, "accounts that differ"
    assert done.stderr.endswith("sepu: accounts: made 1, exists 1, differs 2\n")
    again = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["outcome"] for line in again] == ["differs", "differs", "exists", "made"]
    assert again[0]["difference"] == "name Silk here, Silk, Ltd. in the list"
    assert again[1]["difference"] == "plan_id standard here, gold in the list"
    assert printed(run("account", "show", "cus_1", "--json"))["name"] == "Silk"
    assert [row["externalId"] for row in kept(keys)] == ["cus_1", "cus_2", "dir/cus:3@silk", "cus_4"]


def test_an_import_of_receipts(run: Run, pair: Pair, customers: Path, tmp_path: Path) -> None:
    run(*PLAN)
    keys, public = tmp_path / "keys.csv", tmp_path / "public"
    public.mkdir()
    command = ("account", "import", str(customers), "--keys-file", str(keys), "--public-keys", str(public))
    assert_failed(run(*command), "line 2: ", "cus_1.jwk", "No such file", status=2)
    for name in ("cus_1.jwk", "cus_2.jwk", "dir%2Fcus:3@silk.jwk"):
        (public / name).write_bytes(Path(pair.public).read_bytes())
    assert run(*command).returncode == 0
    assert "sepu_" not in keys.read_text()
    for row in kept(keys):
        opened = printed(run("receipt", "open", pair.private, row["receipt"], "--json"))
        assert (opened["accountId"], opened["keyId"]) == (row["accountId"], row["keyId"])
    (public / "cus_2.jwk").write_bytes(Path(pair.private).read_bytes())
    assert_failed(run(*command), "line 3: this JWK holds a private key", status=2)


def test_a_file_that_is_no_list_of_accounts_changes_nothing(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "customers.csv"
    for content, reason in (
        ("", "the first line names the columns"),
        ("external_id\ncus_1\n", "the first line names the columns"),
        ("externalId,externalId\n", "the first line names the columns"),
        ("externalId,name\ncus_1\n", "line 2: it has 1 cells, and the header 2"),
        ("externalId\ncus_1\ncus_1\n", "line 3: line 2 has the external id 'cus_1' too"),
        ("externalId,expiresAt\ncus_1,30d\n", "line 2: '30d' is not like 2027-01-31"),
        ('externalId\n"cus_1\n', "is not CSV"),
        ("externalId,name\n,Silk\n", "line 2: there is no external id"),
        ("externalId\n\xff\n", "it is not UTF-8"),
        ("externalId,name\n" + "x" * 2**24, "divide it"),
    ):
        file.write_text(content, "latin-1")
        done = run("account", "import", str(file), "--keys-file", str(tmp_path / "keys.csv"))
        assert_failed(done, reason, status=2)
    assert lines(run("account", "list", "--json")) == []


def test_a_line_that_cannot_be_made_is_named_and_those_before_stay(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "customers.csv"
    file.write_text("externalId,planId\ncus_1,\ncus_2,gold\n")
    command = ("account", "import", str(file), "--keys-file", str(tmp_path / "keys.csv"))
    assert_failed(run(*command), "line 3: there is no plan 'gold'")
    assert [each["externalId"] for each in lines(run("account", "list", "--json"))] == ["cus_1"]
    assert [row["externalId"] for row in kept(tmp_path / "keys.csv")] == ["cus_1"]


def broken(descriptor: int) -> None:
    """Takes the place of os.fsync: the disk takes directories, but no file's content."""
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        raise OSError(errno.EIO, os.strerror(errno.EIO))


def test_an_account_whose_key_cannot_be_kept_is_not_made(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, keys = tmp_path / "customers.csv", tmp_path / "keys.csv"
    file.write_text("externalId\ncus_1\n")
    header = "externalId,accountId,keyId,apiKey,thumbprint,receipt\n"
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    for room in (0, 20):  # as on a full disk: nothing is written, or part of a line
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(header) + room, limits[1]))
        try:
            done = run("account", "import", str(file), "--keys-file", str(keys))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert_failed(done, "the account was not made")
        assert keys.read_text() == header
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", broken)
        assert_failed(run("account", "import", str(file), "--keys-file", str(keys)), "the account was not made")
    assert keys.read_text() == header
    assert lines(run("account", "list", "--json")) == []


def test_keys_are_kept_before_their_account_exists_and_nobody_else_reads_them(run: Run, tmp_path: Path) -> None:
    file, keys = tmp_path / "customers.csv", tmp_path / "keys.csv"
    file.write_text("externalId\ncus_1\n")
    command = ("account", "import", str(file), "--keys-file")
    assert_failed(run(*command[:-1]), "give a --keys-file", status=2)
    assert_failed(run(*command, "/dev/full"), "others can read it")
    keys.write_text("")
    for mode in (0o640, 0o620, 0o604, 0o602):
        keys.chmod(mode)
        assert_failed(run(*command, str(keys)), "others can read it")
    keys.chmod(0o600)
    with pytest.MonkeyPatch.context() as patched:  # as if it belonged to somebody else
        patched.setattr(os, "geteuid", lambda: -1)
        assert_failed(run(*command, str(keys)), "others can read it")
    keys.write_text("a shopping list, and no keys file of ours\n" * 9)
    assert_failed(run(*command, str(keys)), "is another file")
    (tmp_path / "link").symlink_to(keys)
    assert_failed(run(*command, str(tmp_path / "link")), "cannot write")
    assert lines(run("account", "list", "--json")) == []
