"""Checks the settings of Postgres that the ledger relies on. `sepu.needed_settings` in `functions.sql` lists them."""

from dataclasses import dataclass

import psycopg

from sepu.database import statements
from sepu.database.roles import granted_roles

# `alter role … set` stores these spellings as they were written; Postgres reads them as on or off.
_SPELLINGS = {"true": "on", "yes": "on", "1": "on", "false": "off", "no": "off", "0": "off"}


@dataclass(frozen=True, slots=True)
class BrokenSetting:
    """A setting that breaks a promise; `set_by` is a role, a database, the server or the connection."""

    role: str
    setting: str
    value: str
    needed: str
    set_by: str


def broken_settings(connection: psycopg.Connection) -> list[BrokenSetting]:
    """Returns the settings that break a promise in sessions of this role and of the roles that serve.

    Must be called by the owner of the schema.
    """
    serving = [role for purpose, role in granted_roles(connection) if purpose == "service"]
    rows = statements.run(connection, "check_settings", roles=serving)
    return [
        BrokenSetting(role, setting, value, " or ".join(accepted), set_by)
        for role, setting, value, accepted, set_by in rows.fetchall()
        if _SPELLINGS.get(value.lower(), value.lower()) not in accepted
    ]
