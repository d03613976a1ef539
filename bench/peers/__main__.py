"""`make bench-peers`: compares sepu with its alternatives in one run, and tests each before it times it."""

import platform
import sys
from collections.abc import Sequence
from importlib.metadata import version
from operator import eq
from statistics import median

import numpy as np
from bench.machine import compiler, cpu
from bench.peers import colours, names, palettes
from bench.peers.timing import ROUNDS, Call, Row, in_words, seconds
from bench.queries import QUERIES
from tests.harness import ciede2000_reference as reference

import sepu
from sepu.library.records import rgb_of

RECORDS = sepu.load().records
PALETTE = np.array([rgb_of(record.hex) for record in RECORDS], dtype=np.float64)
TESTED = 1_000  # colours and pairs that each peer must compute correctly
SINGLES = 50
PAIRS = 100_000
EXACT = 1e-6  # the greatest error of a CIEDE2000 difference; 4 decimals are printed


def main() -> None:
    python, numpy = platform.python_version(), version("numpy")
    print(f"{cpu()}; Python {python}, numpy {numpy}, {compiler()}, sepu {version('sepu')}")
    print(f"medians of {ROUNDS} rounds taken in turns; x is the ratio to sepu")
    pairs, single, batch = colour_tables()
    print_table(f"one CIEDE2000 difference, in arrays of up to {PAIRS:,}", pairs)
    print_table(f"the nearest three of {len(PALETTE)} colours to one: median of {SINGLES} (slowest)", single)
    print_table("the same for arrays of up to 10,000 colours: each colour; a pair is a colour and one of 161", batch)
    for title, rows in palettes.tables():
        print_table(title, rows)
    print_table(f"a search: median of {len(QUERIES)} (slowest); how often it finds what sepu finds", search())


def colour_tables() -> tuple[list[Row], list[Row], list[Row]]:
    rng = np.random.default_rng(2000)
    rgb = np.vstack([rng.integers(0, 256, (5_000, 3)), rng.uniform(0, 255, (5_000, 3))])
    rng.shuffle(rgb)
    lab1, lab2 = (np.column_stack([rng.uniform(0, 100, PAIRS), rng.uniform(-128, 128, (PAIRS, 2))]) for _ in range(2))
    some = rgb[:TESTED]
    expected = list(map(reference.ciede2000, triples(lab1[:TESTED]), triples(lab2[:TESTED])))
    members = [reference.srgb_to_lab(row) for row in triples(PALETTE)]
    nearest = []
    for lab in map(reference.srgb_to_lab, triples(some)):
        delta_e = [reference.ciede2000(lab, member) for member in members]
        nearest.append(sorted(range(len(delta_e)), key=delta_e.__getitem__)[: colours.TOP])

    tables: list[list[list[Call]]] = [[], [], []]
    for peer in colours.PEERS:
        try:
            made = peer(PALETTE)
        except ImportError as error:
            for table in tables:
                table.append([Call(peer.name, fault=f"fails: {error}")])
            continue
        off = np.abs(made.delta_e(lab1[:TESTED], lab2[:TESTED]) - expected).max()
        wrong = sum(made.nearest(*row) != place for row, place in zip(triples(some), nearest, strict=True))
        wrong_in_bulk = int((made.nearest_batch(some) != nearest).any(axis=1).sum())
        faults = [f"{count} of {TESTED:,} wrong" if count else "" for count in (wrong, wrong_in_bulk)]
        count, inexact = made.rows * 10, f"off by up to {off:.2g}" if off > EXACT else ""
        tables[0].append([Call(peer.name, made.delta_e, (lab1[:count], lab2[:count]), count, inexact)])
        tables[1].append([Call(peer.name, made.nearest, row, 1, faults[0]) for row in triples(rgb[:SINGLES])])
        tables[2].append([Call(peer.name, made.nearest_batch, (rgb[: made.rows],), made.rows, faults[1])])
    return timed(tables[0]), timed(tables[1]), timed(tables[2], pairs=len(PALETTE))


def search() -> list[Row]:
    """Times all searches, and says how often they find what sepu finds: no other follows docs/searching.md."""
    made = {name: make(RECORDS) for name, make in names.PEERS.items()}
    answers = [[set(search(q, len(RECORDS))) for q in QUERIES] for search in made.values()]
    same = [sum(map(eq, found, answers[0])) for found in answers]
    rows = timed([[Call(name, search, (q, names.LIMIT)) for q in QUERIES] for name, search in made.items()])
    return [(*row, f"{count} of {len(QUERIES)}") for row, count in zip(rows, same, strict=True)]


def triples(rows: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> list[tuple[float, float, float]]:
    return [(x, y, z) for x, y, z in rows.tolist()]


def timed(peers: Sequence[Sequence[Call]], pairs: int = 0) -> list[Row]:
    """A row for each peer, sepu first, from its calls; all answer the same questions in the same order.

    If each thing stands for several `pairs`, the row has their rate.
    """
    if peers[0][0].fault:
        sys.exit(f"{peers[0][0].who}: {peers[0][0].fault}")
    sound = [calls for calls in peers if not calls[0].fault]
    by_question = [seconds(calls) for calls in zip(*sound, strict=True)]
    times = dict(zip([calls[0].who for calls in sound], zip(*by_question, strict=True), strict=True))
    ours = median(times["sepu"])
    rows: list[Row] = []
    for who, fault in [(calls[0].who, calls[0].fault) for calls in peers]:
        if fault:
            rows.append((who, "", fault))
        else:
            slowest = f" ({in_words(max(times[who]))})" if len(by_question) > 1 else ""
            rate = [f"{pairs / median(times[who]) / 1e6:,.1f} M pairs/s"] if pairs else []
            rows.append((who, in_words(median(times[who])) + slowest, f"x {median(times[who]) / ours:,.1f}", *rate))
    return rows


def print_table(title: str, rows: Sequence[Row]) -> None:
    print(f"\n{title}")
    for who, time, *notes in rows:
        print(f"  {who:<24}{time:>20}  {''.join(f'{note:<12}' for note in notes)}".rstrip())


if __name__ == "__main__":
    main()
