"""The examples of docs/api.md and README.md. `python -m tests.docs.examples` writes what a real server answers."""

import re
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.curl import Ask, by_curl
from tests.serving import serving

from sepu.admin import accounts
from sepu.cli.database import connect, database, service_url

_ROOT = Path(__file__).parents[2]
PAGES = (_ROOT / "docs" / "api.md", _ROOT / "README.md")
_ADDRESS = "http://127.0.0.1:8000"  # as it stands on the pages
_BLOCK = re.compile(r"(?<=```console\n)(.*?)(?=```)", re.DOTALL)
_COMMAND = re.compile(r"^\$ ((?:.*\\\n)*.*\n)", re.MULTILINE)
# What differs from one run to another, and how it stands on the page.
_OWN = (
    (r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "6f1f1a2c-7f6e-4f0e-9f5b-2d1c7b0f8a35"),
    (r'(?<="accountId":")[a-z2-7]{16}', "q7c2mzfw4xk3n5ta"),
    (r"\b20\d\d-(0[1-9]|1[0-2])\b", "2026-11"),
    (r"(?im)^(date|server): .*\n", ""),
)


def with_answers(page: str, run: Callable[[str], str]) -> str:
    """The page, with what its commands print."""

    def block(found: re.Match[str]) -> str:
        commands: list[str] = _COMMAND.findall(found[0])
        return "".join(f"$ {command}{run(command)}" for command in commands)

    return _BLOCK.sub(block, page)


def reader(ask: Ask, address: str, key: str) -> Callable[[str], str]:
    """Runs a page's curls as a reader who has set KEY; its other commands print nothing there."""
    ours = f"http://{address}"

    def run(command: str) -> str:
        if not command.startswith("curl "):
            return ""
        printed = _same(ask(command.replace(_ADDRESS, ours), SEPU_API_KEY=key, SEPU_URL=ours))
        return printed if printed.endswith("\n") else f"{printed}\n"  # before the next prompt

    return run


def _same(printed: str) -> str:
    for pattern, stands in _OWN:
        printed = re.sub(pattern, stands, printed)
    return printed


def main() -> None:
    with (
        tempfile.TemporaryDirectory(prefix="sepu-docs-") as directory,
        database(None, Path(directory), create=True) as url,
        connect(url) as owner,
        serving("uvloop", service_url(url)) as server,
    ):
        for page in PAGES:
            key = accounts.create_account(owner, "standard").api_key
            page.write_text(with_answers(page.read_text("utf-8"), reader(by_curl, server.address, key)), "utf-8")


if __name__ == "__main__":
    main()
