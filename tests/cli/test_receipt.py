"""A key rotation by the commands of both sides, customer and operator."""

import json
import stat
from pathlib import Path

import pytest
from jwcrypto import jwk
from tests.cli.running import Done, Pair, Run, assert_failed, lines, printed, text
from tests.keys import holder_of


@pytest.fixture
def account_id(run: Run) -> str:
    return str(printed(run("account", "create", "--json"))["accountId"])


def only_line(done: Done) -> str:
    shown = text(done)
    assert shown.count("\n") == 1
    return shown.strip()


def test_a_rotation_from_both_sides(run: Run, pair: Pair, account_id: str, tmp_path: Path) -> None:
    ends = ("--expires-at", "2099-01-01T00:00:00Z")
    receipt = run("key", "rotate", account_id, "--public-key", pair.public, *ends).stdout.strip()
    (tmp_path / "receipt").write_text(receipt + "\n")
    key = only_line(run("receipt", "open", pair.private, str(tmp_path / "receipt")))
    assert only_line(run("receipt", "open", pair.private, given=receipt)) == key
    assert only_line(run("receipt", "open", pair.private, "-", given=receipt)) == key
    assert only_line(run("receipt", "open", pair.private, receipt)) == key
    assert holder_of(key).account_id == account_id

    opened = printed(run("receipt", "open", pair.private, receipt, "--json"))
    assert list(opened) == ["accountId", "keyId", "apiKey", "issuedAt", "expiresAt"]
    assert (opened["apiKey"], opened["accountId"], opened["expiresAt"]) == (key, account_id, ends[1])


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_an_accounts_first_key_is_a_receipt_that_can_be_printed_again(run: Run, pair: Pair, form: list[str]) -> None:
    ends = "2099-01-01T00:00:00Z"
    named = ("--external-id", "cus_1", "--expires-at", ends)
    done = run("account", "create", *named, "--public-key", pair.public, *form)
    assert "sepu_" not in done.stdout, "nobody but the customer sees the key"
    remark = f"sepu: the public key's thumbprint is {pair.thumbprint}; the customer must confirm"
    assert done.stderr == "" if form else done.stderr.startswith(remark)
    made = json.loads(done.stdout) if form else dict(line.split(maxsplit=1) for line in done.stdout.splitlines())
    assert list(made) == ["accountId", "planId", "keyId", "thumbprint", "receipt", "expiresAt"]
    opened = printed(run("receipt", "open", pair.private, made["receipt"], "--json"))
    assert (opened["accountId"], opened["keyId"], opened["expiresAt"]) == (made["accountId"], made["keyId"], None)
    assert_failed(run("receipt", "open", pair.private, given=done.stdout), "this is not a receipt")
    (key,) = lines(run("key", "list", "cus_1", "--json"))
    assert (key["keyId"], key["state"], key["expiresAt"]) == (made["keyId"], "valid", None)
    assert made["expiresAt"] == key["accountExpiresAt"] == ends
    again = run("key", "rotate", "cus_1", "--public-key", pair.public)
    assert again.stdout.strip() == made["receipt"]
    assert printed(run("account", "delete", "cus_1", "--json"))["keys"] == 1


def test_a_rotation_can_be_previewed(run: Run, pair: Pair, account_id: str) -> None:
    soon, later, shop = (
        printed(run("key", "issue", account_id, "--expires-at", end, "--json"))["keyId"] for end in ("1d", "30d", "40d")
    )
    run("key", "revoke", printed(run("key", "issue", account_id, "--json"))["keyId"])
    for given, count in ((shop, 1), (account_id, 3)):  # then also the one that replaced it
        before = run("key", "list", account_id, "--json").stdout
        rotate = ("key", "rotate", given, "--public-key", pair.public, "--grace", "7d", "--rotation-id", given)
        shown = run(*rotate, "--dry-run", "--json")
        assert (shown.returncode, shown.stderr) == (0, "sepu: nothing was changed\n")
        assert run("key", "list", account_id, "--json").stdout == before
        listed = {row["keyId"]: row["wouldExpireAt"] for row in map(json.loads, shown.stdout.splitlines())}
        made = printed(run(*rotate, "--json"))
        after = {row["keyId"]: row["expiresAt"] for row in lines(run("key", "list", account_id, "--json"))}
        unchanged = {row["keyId"]: row["expiresAt"] for row in map(json.loads, before.splitlines())}
        assert listed.keys() == {key for key in unchanged if unchanged[key] != after[key]}
        assert (soon in listed, later in listed, len(listed)) == (False, given == account_id, count)
        assert run(*rotate, "--dry-run").stderr == "sepu: no key would expire earlier\nsepu: nothing was changed\n"
        assert made["repeated"] is False


def test_a_first_key_for_a_wrong_public_key_makes_no_account(run: Run, pair: Pair) -> None:
    assert_failed(run("account", "create", "--public-key", pair.private), "private")
    assert_failed(run("account", "create", "--public-key", f"{pair.public}.no"), "No such file", status=2)
    assert lines(run("account", "list", "--json")) == []


def test_repeating_a_rotation(run: Run, pair: Pair, account_id: str) -> None:
    rotate = ("key", "rotate", account_id, "--public-key", pair.public)
    first = printed(run(*rotate, "--grace", "12h", "--json"))
    assert list(first) == ["accountId", "thumbprint", "keyId", "issuedAt", "olderKeysExpireAt", "repeated", "receipt"]
    assert first["thumbprint"] == pair.thumbprint
    assert not first["repeated"]
    assert printed(run(*rotate, "--grace", "0s", "--json")) == {**first, "repeated": True}
    again = run(*rotate)
    assert (again.returncode, again.stdout) == (0, first["receipt"] + "\n")
    assert again.stderr.startswith(f"sepu: this rotation was made at {first['issuedAt']}; nothing was changed, and ")
    assert f"older keys expire at {first['olderKeysExpireAt']}. " in again.stderr
    assert "--rotation-id" in again.stderr
    assert f"thumbprint is {pair.thumbprint};" in again.stderr
    listed = lines(run("key", "list", account_id, "--json"))
    assert len(listed) == 2
    assert "sepu_" not in f"{first}{again}{listed}", "the operator never sees a key"

    second = printed(run(*rotate, "--rotation-id", "2031-03", "--json"))
    assert second["keyId"] != first["keyId"]
    assert_failed(run(*rotate, "--rotation-id", ""), "a rotation id has")


def test_a_private_key_sent_by_mistake(run: Run, pair: Pair, account_id: str) -> None:
    done = run("key", "rotate", account_id, "--public-key", pair.private)
    assert_failed(done, "holds a private key", "must create a new pair")
    secret = json.loads(Path(pair.private).read_text())
    assert [name for name in ("d", "p", "q", "dp", "dq", "qi") if secret[name][:12] in done.stderr] == []
    assert len(lines(run("key", "list", account_id, "--json"))) == 1
    # The key itself in place of its file's name, as with $(cat FILE).
    inline = run("key", "rotate", account_id, "--public-key", Path(pair.private).read_text())
    assert_failed(inline, status=2)
    assert [name for name in ("n", "d", "p", "q") if secret[name][:12] in inline.stderr] == []
    assert_failed(run("key", "rotate", account_id, "--public-key", "nowhere"), "'nowhere': No such file", status=2)


def test_a_key_pairs_files(run: Run, pair: Pair, tmp_path: Path) -> None:
    private = json.loads(Path(pair.private).read_text())
    public = json.loads(Path(pair.public).read_text())
    assert [stat.S_IMODE(Path(file).stat().st_mode) for file in (pair.private, pair.public)] == [0o600, 0o644]
    assert public.items() <= private.items()
    assert jwk.JWK(**private).thumbprint() == public["kid"]

    third = tmp_path / "third.jwk"
    shown = printed(run("receipt", "keypair", str(third)))
    assert shown["kid"] == json.loads(third.read_text())["kid"]
    fourth = printed(run("receipt", "keypair", str(tmp_path / "fourth.jwk"), "--json"))
    assert list(fourth) == ["thumbprint", "privateFile", "publicFile", "publicKey"]
    assert fourth["publicFile"] is None
    assert fourth["publicKey"]["kid"] == fourth["thumbprint"]
    for each in (public, shown, fourth["publicKey"]):
        assert not each.keys() & {"d", "p", "q", "dp", "dq", "qi"}


def test_no_file_is_overwritten(run: Run, pair: Pair, tmp_path: Path) -> None:
    taken = Path(pair.private).read_bytes()
    (link := tmp_path / "link").symlink_to(tmp_path / "nowhere")
    new = tmp_path / "new"
    for arguments in (
        (pair.private,),
        (pair.public, str(new)),
        (str(new), pair.private),
        (str(link),),
        (str(new), str(link)),
        (str(new), str(new)),
    ):
        assert_failed(run("receipt", "keypair", *arguments), "exists already")
        assert not new.exists(), "a private key without its public part is of no use"
    assert_failed(run("receipt", "keypair", str(tmp_path / "no" / "file")), "cannot write", "No such file")
    assert Path(pair.private).read_bytes() == taken
    assert not (tmp_path / "nowhere").exists()
