"""`make bench-compare`: compares the last record with an earlier one, and shows the trend."""

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from bench.records import HARDWARE, Record, differences, history, in_words, moved, read

_BARS = "▁▂▃▄▅▆▇█"
_TREND = 12  # records


def chosen(records: Sequence[Record], which: str) -> Record:
    """Returns the record of that file or number; by default the last but one on the same hardware, or None."""
    *earlier, last = records
    if which:
        if Path(which).is_file():
            return read(Path(which))
        found = [record for record in records if record.name == which]
    else:
        found = [record for record in earlier if record.hardware == last.hardware] or earlier
    if not found:
        sys.exit(f"no record {which}")
    return found[-1]


def sparkline(values: Sequence[float]) -> str:
    """Draws the values as bars, scaled from the least to the greatest."""
    least, most = min(values), max(values)
    span = (most - least) or 1
    return "".join(_BARS[round((value - least) / span * (len(_BARS) - 1))] for value in values)


def lines(records: Sequence[Record], before: Record) -> Iterable[str]:
    """Yields the comparison as lines of text. Records of different hardware have no figures in common."""
    now = records[-1]
    yield f"now     {now.title}"
    yield f"before  {before.title}"
    old, new = ({name: str(record.machine.get(name)) for name in HARDWARE} for record in (before, now))
    if refused := differences(old, new):
        yield from (f"NOT COMPARABLE  {line}" for line in refused)
    else:
        yield from (f"OTHER VERSION   {line}" for line in differences(before.versions, now.versions))
        alike = [record for record in records if record.hardware == now.hardware][-_TREND:]
        for name in sorted(now.times.keys() & before.times.keys()):
            yield row(name, before, now, [record for record in alike if name in record.times])
    yield from moved(before, now)


def row(name: str, before: Record, now: Record, trend: Sequence[Record]) -> str:
    """Returns the line of one benchmark. A change is marked if the interquartile ranges do not overlap."""
    old, new = before.times[name], now.times[name]
    mark = "slower" if new.q1 > old.q3 else "faster" if new.q3 < old.q1 else ""
    bars = sparkline([record.times[name].median for record in trend])
    figures = f"{in_words(old.median):>9} {in_words(new.median):>9} {new.median / old.median - 1:>+8.1%}"
    return f"{name.removeprefix('bench/'):<62} {bars:>{_TREND}} {figures} {mark}".rstrip()


def main(which: str = "") -> None:
    """Exits with 1 if the records cannot be compared."""
    records = history()
    if len(records) == 1 and not which:
        print("there is only one record yet: `make bench` makes another")
        return
    before = chosen(records, which)
    print("\n".join(lines(records, before)))
    if before.hardware != records[-1].hardware:
        sys.exit(1)


if __name__ == "__main__":
    main(*sys.argv[1:])
