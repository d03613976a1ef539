"""The commands of an operators' page, unchanged."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
_BLOCK = re.compile(r"^```(console|sql)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_PROMPTS = ("# ", "$ ")


def commands(page: str, part: str | None = None) -> Iterator[str]:
    """Each command of a page or a part of it, without its prompt and output. A block of SQL is one command."""
    for language, text in _BLOCK.findall((DOCS / page).read_text("utf-8") if part is None else part):
        if language == "sql":
            yield f"runuser -u postgres -- psql sepu --quiet <<'SQL'\n{text.rstrip()};\nSQL"
            continue
        command = ""
        for line in text.splitlines():
            if command:
                command = f"{command}\n{line}"
            elif line.startswith("# SQL: "):
                command = f'runuser -u postgres -- psql sepu -c "{line[7:]}"'
            elif line.startswith(_PROMPTS):
                command = line[2:]
            if command and _is_whole(command):
                yield command
                command = ""
        assert not command, f"{page}: {command}"


def _is_whole(command: str) -> bool:
    """Asks bash, which warns of an unfinished here-document."""
    done = subprocess.run(["bash", "-n", "-c", command], capture_output=True, text=True, check=False)
    return done.returncode == 0 and not done.stderr and not command.endswith("\\")
