"""Where and with what was measured."""

import os
import platform
import subprocess
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import psycopg
from bench.machine import cpu

_PACKAGES = ("gunicorn", "httptools", "falcon", "psycopg", "psycopg-binary", "uvloop", "msgspec", "sepu")
_ROOT = Path(__file__).parents[2]


def describe() -> dict[str, object]:
    """Of every record."""
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "cpu": cpu(),
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 2),
        "system": platform.platform(),
        "python": platform.python_version(),
        "packages": {name: version(name) for name in _PACKAGES},
        "commit": commit(),
    }


def database(connection: psycopg.Connection) -> dict[str, str]:
    """The server's version, and what it does for durability."""
    names = ("server_version", "fsync", "synchronous_commit", "full_page_writes", "shared_buffers")
    row = connection.execute(f"select {', '.join(f'current_setting({name!r})' for name in names)}").fetchone()
    assert row is not None
    return dict(zip(names, row, strict=True))


def scans(connection: psycopg.Connection) -> dict[str, dict[str, int]]:
    """How the ledger's tables were read, and how many of their updates stayed on the page. Each read is to be a probe.

    A handful of sequential scans are those of the preparation; one a request is a plan made for an empty table.
    """
    rows = connection.execute(
        "select relname, seq_scan, idx_scan, n_tup_upd, n_tup_hot_upd from pg_stat_user_tables"
        " where relname in ('account', 'api_key', 'usage', 'stored_result', 'request_rate') order by relname"
    ).fetchall()
    heads = ("sequential scans", "index scans", "updates", "of them HOT")
    return {name: dict(zip(heads, counts, strict=True)) for name, *counts in rows}


def packages() -> str:
    """The ones that matter most, in words."""
    return ", ".join(f"{name} {version(name)}" for name in ("gunicorn", "falcon", "psycopg"))


def commit() -> str:
    """With a plus when the tree is not as committed."""
    try:
        done = subprocess.run(
            ["git", "describe", "--always", "--dirty=+", "--abbrev=12"], cwd=_ROOT, capture_output=True, text=True,
            check=True,
        )  # fmt: skip
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return done.stdout.strip()
