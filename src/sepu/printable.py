"""Makes text safe to print."""

import json
import sys


def printable(text: str) -> str:
    r"""Escapes what a terminal could take for a command, as JSON does (`\u001b`). A tab stays."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char == "\t" else json.dumps(char)[1:-1] for char in text)


def say(message: str) -> None:
    """Prints a message to the person who starts a server, next to what the server logs."""
    print(f"sepu: {printable(message)}", file=sys.stderr)  # noqa: T201
