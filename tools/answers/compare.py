"""Whether two Pythons' sepu give the same answers, byte for byte: `python -m tools.answers.compare ONE OTHER`.

Shows the first answers that differ.
"""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import click
from tools.dist.contents import ROOT


def ask(python: str, *blocks: str) -> list[str]:
    """What tools.answers prints with that Python."""
    command = [python, "-m", "tools.answers", *blocks]
    return subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True, text=True).stdout.splitlines()


def main(*pythons: str) -> int:
    """Asks both at the same time; 1 if an answer differs."""
    with ThreadPoolExecutor() as pool:
        pairs = [*zip(*pool.map(ask, pythons), strict=True)]
        differ = [str(block) for block, (one, other) in enumerate(pairs) if one != other]
        click.echo(f"{len(differ)} of {len(pairs)} blocks of answers differ")
        if differ:
            answers = zip(*pool.map(ask, pythons, [differ[0]] * 2), strict=True)
            one, other = next(pair for pair in answers if pair[0] != pair[1])
            click.echo(f"In block {differ[0]}, {pythons[0]} answers first\n{one}\nand {pythons[1]}\n{other}")
    return int(bool(differ))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
