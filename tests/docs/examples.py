"""The pages with commands. `python -m tests.docs.examples` fills in the output of a real server and `sepu`.

It also writes the release's versions, hashes and counts of ratings. `make release` runs it.
"""

import json
import os
import re
import shlex
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import msgspec
from tests.curl import Ask, by_curl
from tests.harness.serving import SEPU, serving

import sepu
from sepu.admin import accounts
from sepu.database.opening import connect, database, service_url

_ROOT = Path(__file__).parents[2]
_README = _ROOT / "README.md"
PAGES = (_README, *(_ROOT / f"docs/{name}.md" for name in ("api", "customers", "designers", "package", "python")))
# `with_release` writes them.
RELEASED = (*PAGES, *(_ROOT / name for name in ("docs/colours.md", "docs/openapi.yaml", "data/README.md")))
# Files that may tell how many colours there are; measurements keep the number with which they were made.
_MEASURED = ("performance.md", "indexes.md")
_COUNT = re.compile(r"(?<=nearest of )\d+(?= traditional)")
_COLUMNS = 80
_ADDRESS = "http://127.0.0.1:8000"  # as printed on the pages
_BLOCK = re.compile(r"(?<=```console\n)(.*?)(?=```)", re.DOTALL)
# A command, and the output below it.
_COMMAND = re.compile(r"^\$ ((?:.*\\\n)*.*\n)((?:(?!\$ ).*\n)*)", re.MULTILINE)
_JSON = re.compile(r"^\{.*\}$", re.MULTILINE)
# Values that differ between runs, and the value on the page.
_OWN = (
    (r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "6f1f1a2c-7f6e-4f0e-9f5b-2d1c7b0f8a35"),
    (r'(?<="accountId":")[a-z2-7]{16}', "q7c2mzfw4xk3n5ta"),
    (r"\b20\d\d-(0[1-9]|1[0-2])\b", "2026-11"),
    (r"(?im)^server: .*\n", ""),
    (r"(?m)^Date: .*", "Date: Sat, 21 Nov 2026 09:30:00 GMT"),
)


def with_answers(page: str, run: Callable[[str], str | None]) -> str:
    """The page with its commands' output; where `run` returns None the old output stays."""

    def example(found: re.Match[str]) -> str:
        printed = run(found[1])
        return found[0] if printed is None else f"$ {found[1]}{printed}"

    return _BLOCK.sub(lambda block: _COMMAND.sub(example, block[0]), page)


def reader(ask: Ask, address: str, key: str) -> Callable[[str], str | None]:
    """Runs a page's curls for a reader who has set KEY, and those commands of sepu that need no database."""
    ours = f"http://{address}"

    def run(command: str) -> str | None:
        if command.startswith(("sepu match", "sepu image", "sepu search")):
            return _sepu(command)
        if not command.startswith("curl "):
            return None
        printed = _same(ask(command.replace(_ADDRESS, ours), SEPU_API_KEY=key, SEPU_URL=ours))
        printed = _JSON.sub(lambda answer: _laid_out(json.loads(answer[0])), printed)
        return printed if printed.endswith("\n") else f"{printed}\n"  # the prompt begins a line

    return run


def _sepu(command: str) -> str | None:
    if "|" in command or ">" in command:
        return None
    done = subprocess.run(
        [SEPU, *shlex.split(command)[1:]],
        env={**os.environ, "COLUMNS": str(_COLUMNS)},
        cwd=_ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return "".join(f"{line.rstrip()}\n" for line in done.stdout.splitlines())


def _laid_out(value: object, indent: int = 0) -> str:
    """JSON as the service writes it, but broken into lines where it is too long for one."""
    line = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    if indent + len(line) <= _COLUMNS or not isinstance(value, dict | list):
        return line
    inner = "\n" + " " * (indent + 2)
    if isinstance(value, list):
        return f"[{inner}{f',{inner}'.join(_laid_out(item, indent + 2) for item in value)}\n{' ' * indent}]"
    members = (f"{json.dumps(name)}:{_laid_out(item, indent + 2)}" for name, item in value.items())
    return f"{{{inner}{f',{inner}'.join(members)}\n{' ' * indent}}}"


def _same(printed: str) -> str:
    for pattern, stands in _OWN:
        printed = re.sub(pattern, stands, printed)
    return printed


def with_release(text: str) -> str:
    """A page or the OpenAPI document with the current release's versions, hashes and counts of ratings."""
    manifest = {"datasetVersion": sepu.load().manifest.version} | msgspec.to_builtins(sepu.load().manifest)
    named = "|".join(name for name in manifest if name.endswith(("Version", "Sha256", "Count")))
    version, sha256 = manifest["version"], manifest["librarySha256"]
    text = re.sub(rf"(?m)(?<=^ {{20}})({named}): \S+$", lambda found: f"{found[1]}: {manifest[found[1]]}", text)
    text = re.sub(r"(?<= version: )\S+(?=\n +recordCount: )", version, text)
    text = re.sub(r"(?m)^\('[0-9.]+', '[0-9a-f]{16}'\)$", f"({version!r}, {sha256[:16]!r})", text)
    text = re.sub(r"(?<=\bdataset )\d+\.\d+\.\d+", version, text)
    for rating, count in Counter(record.reliability for record in sepu.load()).items():
        text = re.sub(rf"\b\d+(?=\s(are\s+)?`?{rating}\b|(\scolours)?\s\(`{rating}`\))", f"{count}", text)
    return re.sub(r"(?sm)(?<=^\|---\|---\|---\|---\|---\|---\|---\|\n)\| <span.*?(?=\n\n)", _table, text)


def _table(_: object) -> str:
    """The rows of the page of all colours."""
    return "\n".join(
        f'| <span class="swatch" style="background: {color.hex}"></span> | `{color.hex}` | {color.name.zh} '
        f"| {color.name.pinyin} | {color.name.en} | {color.reliability} | {color.group} |"
        for color in sepu.load()
    )


def counted_colours() -> int:
    """The number of colours that the pages tell."""
    return int(_COUNT.findall(_README.read_text("utf-8"))[0])


def _count_colours() -> None:
    """Writes the number of colours wherever it is told."""
    number = re.compile(rf"\b{counted_colours()}\b(?!-colour)")  # the base list has the same number, and keeps it
    files = [_ROOT / name for name in ("Dockerfile", "README.md", "data/README.md", "mkdocs.yml", "pyproject.toml")]
    files += [path for name in ("client", "docs", "src", "tests") for path in (_ROOT / name).rglob("*.*")]
    for path in files:
        if path.suffix in {"", ".md", ".py", ".toml", ".yaml", ".yml"} and path.name not in _MEASURED:
            path.write_text(number.sub(f"{len(sepu.load())}", path.read_text("utf-8")), "utf-8")


def main() -> None:
    if counted_colours() != len(sepu.load()):
        _count_colours()
    for path in RELEASED:
        path.write_text(with_release(path.read_text("utf-8")), "utf-8")
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
