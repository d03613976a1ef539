"""The packaged `.sql` files."""

import hashlib
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, LiteralString

import psycopg

_SQL = files("sepu.database").joinpath("sql")


@dataclass(frozen=True)
class Script:
    """A migration or the functions: a file of statements that is applied as a whole."""

    name: str
    text: LiteralString

    @property
    def sha256(self) -> str:
        """Gives the digest by which the database remembers what was applied."""
        return hashlib.sha256(self.text.encode()).hexdigest()


def statement(name: str) -> LiteralString:
    """Gives the text of `sql/statements/<name>.sql`, to be run with parameters."""
    # For psycopg's types only literal text is a statement, so that no input gets into SQL; a packaged file is as safe.
    return _SQL.joinpath("statements", f"{name}.sql").read_text("utf-8")


def run(connection: psycopg.Connection, name: str, /, **parameters: object) -> psycopg.Cursor:
    """Runs the statement of that name."""
    return connection.execute(statement(name), parameters)


def value(connection: psycopg.Connection, name: str, /, **parameters: object) -> Any:  # noqa: ANN401
    """Runs a statement that gives one value."""
    ((found,),) = run(connection, name, **parameters).fetchall()
    return found


def migrations() -> tuple[Script, ...]:
    """Gives the migrations in order; each is applied once, and never edited after it was released."""
    found = sorted(_SQL.joinpath("migrations").iterdir(), key=lambda file: file.name)
    return tuple(Script(file.name, file.read_text("utf-8")) for file in found)


def functions() -> Script:
    """Gives all functions; applied again whenever their text changes."""
    file = _SQL.joinpath("functions.sql")
    return Script(file.name, file.read_text("utf-8"))


def distribution() -> LiteralString:
    """Gives what distributes tables and functions on Citus; it may be run again."""
    return _SQL.joinpath("citus.sql").read_text("utf-8")
