"""Reads the packaged `.sql` files: named statements, the migrations, the functions and the distribution."""

import hashlib
import re
from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, LiteralString

import psycopg
from psycopg.abc import Query

_SQL = files("sepu.database").joinpath("sql")


@dataclass(frozen=True)
class Script:
    """A migration or the functions: a file of statements, applied in one transaction."""

    name: str
    text: LiteralString

    @property
    def sha256(self) -> str:
        """Returns the digest with which the database records what was applied."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    @property
    def statements(self) -> list[LiteralString]:
        """Returns its statements: each ends with a semicolon at the end of a line, outside of `$$`."""
        found: list[Any] = [""]
        for line in self.text.splitlines(keepends=True):
            found[-1] += line
            if line.partition("--")[0].rstrip().endswith(";") and found[-1].count("$$") % 2 == 0:
                found.append("")
        return [statement for statement in found if re.sub(r"--.*", "", statement).strip()]


def statement(name: str) -> LiteralString:
    """Returns the text that follows `-- name: <name>` in one of the files of `sql/statements/`.

    Raises:
        KeyError: there is no such statement.
    """
    return _statements()[name]


def run(connection: psycopg.Connection, name: str, /, **parameters: object) -> psycopg.Cursor:
    """Runs the statement of that name."""
    return connection.execute(statement(name), parameters)


def stream(
    connection: psycopg.Connection, query: Query, parameters: Mapping[str, object]
) -> Generator[tuple[Any, ...], None, None]:
    """Yields a statement's rows as they arrive. Close the generator before the connection, whose lock it holds."""
    yield from connection.cursor().stream(query, parameters)


def value(connection: psycopg.Connection, name: str, /, **parameters: object) -> Any:  # noqa: ANN401
    """Runs a statement that returns one value, and returns the value."""
    ((found,),) = run(connection, name, **parameters).fetchall()
    return found


def migrations() -> tuple[Script, ...]:
    """Returns the migrations in order. Each is applied once, and never edited after its release."""
    found = sorted(_SQL.joinpath("migrations").iterdir(), key=lambda file: file.name)
    return tuple(Script(file.name, file.read_text("utf-8")) for file in found)


def functions() -> Script:
    """Returns all functions. They are applied again whenever their text changes."""
    file = _SQL.joinpath("functions.sql")
    return Script(file.name, file.read_text("utf-8"))


def public() -> LiteralString:
    """Returns the query for what every role may do by default, and how to close it."""
    return _SQL.joinpath("public.sql").read_text("utf-8")


def distribution() -> LiteralString:
    """Returns the script that distributes tables and functions on Citus. It may be run again."""
    return _SQL.joinpath("citus.sql").read_text("utf-8")


@cache
def _statements() -> dict[str, LiteralString]:
    return parse(file.read_text("utf-8") for file in _SQL.joinpath("statements").iterdir())


def parse(texts: Iterable[str]) -> dict[str, LiteralString]:
    """Splits files of named statements.

    Raises:
        ValueError: two statements have the same name, or the first has none.
    """
    # psycopg's types accept only literal text as a statement, to keep input out of SQL. Packaged files are as safe.
    found: dict[str, Any] = {}
    for text in texts:
        before, *named = re.split(r"^-- name: (\w+)\n", text, flags=re.MULTILINE)
        if before:
            raise ValueError(f"a statement has no name: {before!r}")
        for name, body in zip(named[::2], named[1::2], strict=True):
            if name in found:
                raise ValueError(f"two statements are named {name!r}")
            found[name] = body.strip()
    return found
