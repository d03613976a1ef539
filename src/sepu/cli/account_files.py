"""Reads the accounts and public keys of `sepu account import`, and writes the new keys."""

import csv
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import cache
from io import StringIO
from pathlib import Path
from urllib.parse import quote

import click

from sepu.admin import receipts
from sepu.admin.import_accounts import Column, NewKey, WantedAccount
from sepu.admin.keys import IssuedKey
from sepu.cli.files import first_bytes
from sepu.cli.times import ending_at
from sepu.errors import SepuError

# A list of accounts: some 100,000 of them.
_ACCOUNTS_CHARACTERS = 2**24

_COLUMNS: dict[str, Column | None] = {
    "externalId": None, "name": "name", "planId": "plan_id", "expiresAt": "expires_at"
}  # fmt: skip
_KEYS = ("externalId", "accountId", "keyId", "apiKey", "thumbprint", "receipt")


def read_accounts(name: str, plan_id: str, public_keys: Path | None) -> tuple[list[WantedAccount], list[Column]]:
    """Reads a CSV of accounts; returns them, and the columns that it has besides the external id.

    Raises:
        click.BadParameter: the file cannot be read, or a line is not an account; nothing was changed.
    """
    try:
        with click.open_file(name, encoding="utf-8-sig") as file:
            text = file.read(_ACCOUNTS_CHARACTERS + 1)
    except OSError as error:
        raise click.BadParameter(f"{name!r}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise click.BadParameter(f"{name!r}: it is not UTF-8") from error
    if len(text) > _ACCOUNTS_CHARACTERS:
        raise click.BadParameter(f"{name!r} has more than {_ACCOUNTS_CHARACTERS:,} characters; divide it")
    rows = csv.reader(StringIO(text), strict=True)
    ending = cache(ending_at)  # a day's remark is printed once, not for each line
    try:
        header = next(rows, [])
        _check_header(name, header)
        found: dict[str, WantedAccount] = {}
        for cells in rows:
            if not cells:
                continue
            with _on_line(name, rows.line_num):
                if len(cells) != len(header):
                    raise ValueError(f"it has {len(cells)} cells, and the header {len(header)}")
                row = dict(zip(header, cells, strict=True))
                ends = ending(row["expiresAt"]) if row.get("expiresAt") else None
                each = _account(rows.line_num, row, plan_id, ends, public_keys)
                if (first := found.setdefault(each.external_id, each)) is not each:
                    raise ValueError(f"line {first.line} has the external id {each.external_id!r} too")
    except csv.Error as error:
        raise click.BadParameter(f"{name!r}: line {rows.line_num} is not CSV: {error}") from error
    return list(found.values()), [column for title in header if (column := _COLUMNS[title])]


def _check_header(name: str, header: Sequence[str]) -> None:
    unknown = [title for title in header if title not in _COLUMNS]
    if "externalId" not in header or unknown or len(set(header)) < len(header):
        raise click.BadParameter(
            f"{name!r}: the first line names the columns: {', '.join(_COLUMNS)}; externalId is required"
        )


@contextmanager
def _on_line(name: str, line: int) -> Iterator[None]:
    try:
        yield
    except (ValueError, SepuError, click.BadParameter) as error:
        text = error.message if isinstance(error, click.BadParameter) else error
        raise click.BadParameter(f"{name!r}: line {line}: {text}") from error


def _account(
    line: int, row: dict[str, str], plan_id: str, ends: datetime | None, public_keys: Path | None
) -> WantedAccount:
    external_id = row["externalId"]
    if not external_id:
        raise ValueError("there is no external id")
    return WantedAccount(
        line,
        external_id,
        row.get("planId") or plan_id,
        row.get("name") or None,
        ends,
        None if public_keys is None else _public_key(public_keys, external_id),
    )


def _public_key(directory: Path, external_id: str) -> receipts.PublicKey:
    """Reads EXTERNAL_ID.jwk, in which / and other characters are written as in an address: %2F."""
    return receipts.public_key(first_bytes(str(directory / f"{quote(external_id, safe='@:')}.jwk")))


@contextmanager
def keeping_keys(path: Path) -> Iterator[Callable[[WantedAccount, NewKey], None]]:
    """Opens a file that only its owner can read, new or of an earlier import; yields what stores a key in it.

    Raises:
        SepuError: the file cannot be written, others can read it, or it is another file.
    """
    title = ",".join(_KEYS).encode() + b"\n"
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        os.fsync(directory)  # a new file outlives a power failure, as its lines do
        os.close(directory)
    except OSError as error:
        raise SepuError(f"cannot write {path} ({error.strerror})") from error
    with os.fdopen(descriptor, "r+b", buffering=0) as file:
        about = os.fstat(descriptor)
        if not stat.S_ISREG(about.st_mode) or about.st_uid != os.geteuid() or about.st_mode & 0o077:
            raise SepuError(f"{path} would hold API keys, and others can read it: chmod 600, or name a new file")
        if about.st_size and file.read(len(title)) != title:
            raise SepuError(f"{path} is another file; name a new one, or that of an earlier import")

        def add(line: bytes) -> None:
            before, written, reason = os.fstat(descriptor).st_size, 0, "the disk is full"
            try:
                written = file.write(line)
                os.fsync(descriptor)
            except OSError as error:
                written, reason = 0, error.strerror or reason
            if written != len(line):
                os.ftruncate(descriptor, before)
                raise SepuError(f"cannot write {path} ({reason}); the account was not made")

        if not about.st_size:
            add(title)
        yield lambda wanted, made: add(_line(wanted, made))


def _line(wanted: WantedAccount, made: NewKey) -> bytes:
    account_id, key = made
    row = dict.fromkeys(_KEYS, "") | {"externalId": wanted.external_id, "accountId": account_id, "keyId": key.key_id}
    if isinstance(key, IssuedKey):
        row["apiKey"] = key.api_key
    elif wanted.public_key is not None:
        row |= {"thumbprint": wanted.public_key.thumbprint(), "receipt": key.receipt}
    line = StringIO()
    csv.writer(line, lineterminator="\n").writerow(row.values())
    return line.getvalue().encode()
