"""Lists the direct dependencies without a release for eighteen months: look for a successor. `make lock` runs it.

uv resolves each one as of today and as of then. Those with the same newest version are listed.
"""

import subprocess
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from itertools import chain
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
THEN = datetime.now(UTC).date() - timedelta(days=548)


def direct_dependencies() -> list[str]:
    """Returns the names in all lists of the two projects' dependencies."""
    names = {"greenlet", "meinheld"}  # those that the Makefile names
    for file in (ROOT / "pyproject.toml", ROOT / "client" / "pyproject.toml"):
        settings = tomllib.loads(file.read_text("utf-8"))
        project, groups = settings["project"], settings.get("dependency-groups", {})
        lists = chain(project.get("optional-dependencies", {}).values(), groups.values())
        given = chain(project.get("dependencies", []), settings["build-system"]["requires"], *lists)
        names |= {Requirement(each).name for each in given if isinstance(each, str)}
    return sorted(names - {"sepu", "sepu-client"})


def newest(name: str, *options: str) -> str:
    """Returns the newest version of a package as `name==version`; nothing if there is none."""
    uv = str(Path(sys.executable).with_name("uv"))
    command = [uv, "pip", "compile", "--quiet", "--no-deps", "--no-header", "--no-annotate", *options, "-"]
    return subprocess.run(command, input=name, capture_output=True, text=True, check=False, timeout=60).stdout.strip()


def main() -> None:
    """Prints a line for each of them."""
    names = direct_dependencies()
    with ThreadPoolExecutor(4) as threads:
        now = threads.map(newest, names)
        then = threads.map(lambda name: newest(name, "--exclude-newer", THEN.isoformat()), names)
        old = [today for today, before in zip(now, then, strict=True) if today == before]
    print(f"direct dependencies without a release since {THEN}: {', '.join(old) or 'none'}")  # noqa: T201


if __name__ == "__main__":
    main()
