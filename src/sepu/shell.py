"""The dialect of `sepu` and `sepu-client`: how they read arguments and write rows. The client links to this file."""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from shlex import quote

ROWS = ("json", "jsonl", "tsv", "csv")
"""The formats of rows."""

PALETTES = (".gpl", ".ase", ".json", ".css", ".csv", ".tsv")
"""The endings of files with colours and names."""

DIGITS = {"deltaE": 4, "share": 6}
"""After the decimal point."""

_NUMBER = re.compile(r"[+-]?\d{1,3}(\.\d*)?,?", re.ASCII)
_FILE_ENDING = re.compile(r"\.[a-z][a-z0-9]{1,4}")
# A spreadsheet reads a cell that begins with one of these as a formula (OWASP, "CSV Injection").
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")


def in_threes(arguments: Iterable[str]) -> Iterator[str]:
    """Yields each argument, but three numbers in a row as one colour."""
    remaining = iter(arguments)
    for argument in remaining:
        if _NUMBER.fullmatch(argument):
            yield " ".join(more.rstrip(",") for more in (argument, *islice(remaining, 2)))
        else:
            yield argument


def as_given(text: str, rgb: Sequence[float]) -> str:
    """Returns HEX, or if that cannot express the colour, the CSS function as written, or rgb() of the numbers."""
    if all(0 <= channel <= 255 and channel == round(channel) for channel in rgb):
        return "#{:02X}{:02X}{:02X}".format(*map(round, rgb))
    return " ".join(text.split()) if "(" in text else "rgb({:.10g}, {:.10g}, {:.10g})".format(*rgb)


def file_fault(text: str) -> str | None:
    """Returns what to do with a file that was given as a colour; None for other texts."""
    name, ending, exists = quote(text), os.path.splitext(text)[1].lower(), os.path.isfile(text)  # noqa: PTH113, PTH122
    if not exists and not _FILE_ENDING.fullmatch(ending):
        return None
    if ending in {".csv", ".tsv", ".txt"}:
        way = f"the colours in it: sepu match - {'--column COLUMN ' if ending == '.csv' else ''}< {name}"
    elif ending in PALETTES:
        way = f"its colours: sepu list --palette {name}"
    else:
        way = f"an image: sepu image {name}"
    fault = "is a file" if exists else "is not a colour, and there is no such file; check its name"
    return f"{text!r} {fault}; for {way}"


def no_formula(value: object) -> object:
    """Returns a cell that no spreadsheet runs: a text that looks like a formula gets an apostrophe before it."""
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value
