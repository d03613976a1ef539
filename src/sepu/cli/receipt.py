"""The customer's side of a key rotation: `sepu receipt`. Needs no database and no server."""

import os
from contextlib import ExitStack
from pathlib import Path

import click
import msgspec

from sepu.admin import receipts
from sepu.cli.command import example, group, json_option
from sepu.cli.files import first_bytes
from sepu.cli.output import check_output, echo, echo_fields, echo_json, report_success_if_unprinted
from sepu.errors import SepuError


def receipt_or_file(value: str) -> bytes:
    """Returns a receipt, which begins with {" in base64, or reads the file that has it."""
    return value.encode() if value.startswith("eyJ") else first_bytes(value)


@group()
def receipt() -> None:
    """Receive a new API key encrypted: make a key pair, send its public part, open the receipt."""


@receipt.command("keypair", epilog=example("receipt keypair sepu-private.jwk sepu-public.jwk"))
@click.argument("private_file", metavar="PRIVATE", type=click.Path(path_type=Path))
@click.argument("public_file", metavar="[PUBLIC]", required=False, type=click.Path(path_type=Path))
@json_option
def keypair(private_file: Path, public_file: Path | None, as_json: bool) -> None:
    """Make a key pair (RSA of 3072 bits, as JWK).

    The private part goes into the file PRIVATE, which only you can read, and stays with you. The public part goes into
    the file PUBLIC, or to standard output: send it to support. No file is ever overwritten.
    """
    check_output()
    key = receipts.new_private_key()
    public = key.as_dict()
    with ExitStack() as undone:
        _create(private_file, key.as_dict(private=True), 0o600, undone)
        if public_file is not None:
            _create(public_file, public, 0o644, undone)
        undone.pop_all()
    fields = {"thumbprint": key.kid, "privateFile": str(private_file), "publicFile": public_file and str(public_file)}
    made = [file for file in (private_file, public_file) if file is not None]
    with report_success_if_unprinted({}, f"Remove {' and '.join(map(str, made))}, and run it again"):
        if as_json:
            echo_json({**fields, "publicKey": public})
        elif public_file is None:
            echo_json(public)
        else:
            echo_fields(fields, as_json)


@receipt.command("open", epilog=example("receipt open sepu-private.jwk receipt.txt"))
@click.argument("private", metavar="PRIVATE", type=first_bytes)
@click.argument("sealed", metavar="[RECEIPT]", type=receipt_or_file, default="-")
@json_option
def open_receipt(private: bytes, sealed: bytes, as_json: bool) -> None:
    """Open a receipt and print the API key in it.

    PRIVATE is the file that `sepu receipt keypair` made. RECEIPT is the receipt itself or a file that holds it; without
    it, standard input is read.
    """
    contents = receipts.unseal(sealed, receipts.private_key(private))
    if as_json:
        echo_json(contents)
    else:
        echo(contents.api_key)


def _create(path: Path, jwk: object, mode: int, undone: ExitStack) -> None:
    """Writes a new file, and removes it if `undone` is closed."""
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            undone.callback(path.unlink)
            file.write(msgspec.json.encode(jwk) + b"\n")
    except FileExistsError as error:
        raise SepuError(f"{path} exists already and is not overwritten; choose another file name") from error
    except OSError as error:
        raise SepuError(f"cannot write {path}: {error.strerror}") from error
