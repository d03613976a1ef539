"""`make pictures`: the pictures of the documentation, drawn from the library itself. A test draws them again."""

import math
import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from html import escape
from pathlib import Path

import numpy as np
from rich.cells import cell_len
from rich.style import Style
from rich.text import Text

import sepu
from sepu.library.records import Record, rgb_of

IMAGES = Path(__file__).parents[2] / "docs" / "images"

_RECORDS = sepu.load().records
_LAB = sepu.srgb_to_lab(np.array([rgb_of(record.hex) for record in _RECORDS], float), scale=255)
_PLACES = {record.slug: place for place, record in enumerate(_RECORDS)}
_NEUTRAL = 8.0  # a chroma below which a hue means little
# A message: from whom, to whom (below 0: it is lost), what it says. Or a note on one of them.
_Step = tuple[int, int, str] | tuple[int, str]
_SHOWN = "sepu match tomato"
_FONT = "system-ui, 'Noto Sans', 'Noto Sans CJK SC', sans-serif"


def chart() -> str:
    """All colours: 23 columns by hue, the last ones neutral; in a column from light to dark."""
    rows, columns, side, gap = 7, 23, 36, 3
    hues = np.degrees(np.arctan2(_LAB[:, 2], _LAB[:, 1])) % 360
    neutral = np.hypot(_LAB[:, 1], _LAB[:, 2]) < _NEUTRAL
    order = np.lexsort((hues, neutral)).tolist()
    shapes = []
    for column in range(columns):
        places = sorted(order[column * rows : (column + 1) * rows], key=lambda place: -_LAB[place, 0])
        for row, place in enumerate(places):
            corner = gap + column * (side + gap), gap + row * (side + gap)
            shapes.append(_square(*corner, side, _RECORDS[place]))
    return _svg(gap + columns * (side + gap), gap + rows * (side + gap), shapes, f"The {len(_RECORDS)} colours")


def terminal() -> str:
    """What `sepu match tomato` prints in a terminal, with its swatches."""
    ours, theirs = pty.openpty()
    terminal = {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor", "COLUMNS": "70", "NO_COLOR": ""}
    with subprocess.Popen([Path(sys.executable).with_name("sepu"), *_SHOWN.split()[1:]], stdout=theirs, env=terminal):
        os.close(theirs)
        printed = b"".join(iter(lambda: _read(ours), b""))
    os.close(ours)
    column, row, edge = 9.0, 21, 16  # pixels
    text = Text.assemble("$ ", (_SHOWN, "bold"), "\n", Text.from_ansi(printed.decode().replace("\r", "")))
    text.rstrip()
    shapes = []
    for number, line in enumerate(text.split()):
        for span in line.spans:
            style = Style.parse(span.style) if isinstance(span.style, str) else span.style
            if style.bgcolor:
                color = style.bgcolor.get_truecolor().hex
                shapes.append(
                    f'<rect x="{edge + column * span.start:g}" y="{edge + number * row}" '
                    f'width="{column * (span.end - span.start):g}" height="{row}" fill="{color}"/>'
                )
        # Each word stands at its own column, so that columns hold in any font.
        for word in re.finditer(r"\S+(?: \S+)*", line.plain):
            x = edge + column * cell_len(line.plain[: word.start()])
            kind = "typed" if number in (0, 2) else "printed"
            if word[0].startswith("─"):
                shapes.append(
                    _line(x, edge + (number + 0.5) * row, x + column * len(word[0]), edge + (number + 0.5) * row)
                )
            else:
                shapes.append(_text(x, edge + (number + 0.7) * row, word[0], kind))
    height = 2 * edge + row * len(text.split())
    return _svg(2 * edge + column * max(cell_len(line.plain) for line in text.split()), height, shapes, _SHOWN)


def lab() -> str:
    """Where the colours lie in L*a*b*: from above, and lightness against chroma."""
    size, margin, reach = 420, 40, 115.0
    unit = (size / 2) / reach
    middle = margin + size / 2
    left, floor = size + 3 * margin, margin + size
    lines, dots, scales = [], [], []
    for chroma in (25, 50, 75, 100):
        lines.append(f'<circle cx="{middle}" cy="{middle}" r="{chroma * unit:.1f}" class="line"/>')
        # where no colours are
        scales.append(_text(middle - chroma * unit * 0.75, middle + chroma * unit * 0.75, str(chroma)))
        scales.append(_text(left + chroma * size / reach - 10, floor + 20, str(chroma)))
    lines.append(_line(margin, middle, margin + size, middle))
    lines.append(_line(middle, margin, middle, margin + size))
    scales += [_text(margin + size - 14, middle - 6, "a*"), _text(middle + 6, margin + 12, "b*")]
    for lightness in range(0, 101, 25):
        height = floor - lightness * size / 100
        lines.append(_line(left, height, left + size, height))
        scales.append(_text(left - 36, height + 6, str(lightness)))
    scales += [_text(left - 36, margin - 16, "L*"), _text(left + size - 18, floor + 20, "C*")]
    for place in np.argsort(_LAB[:, 0]).tolist():
        lightness, a, b = _LAB[place]
        dots.append(_dot(middle + a * unit, middle - b * unit, _RECORDS[place]))
        dots.append(_dot(left + math.hypot(a, b) * size / reach, floor - lightness * size / 100, _RECORDS[place]))
    shapes = lines + dots + scales
    return _svg(2 * size + 4 * margin, size + 2 * margin, shapes, f"The {len(_RECORDS)} colours in CIE L*a*b*")


def neighbours() -> str:
    """Draws one colour next to others at a growing deltaE."""
    first = _PLACES["fei-hong"]
    found = _delta_e_to_all(first)
    places = [int(np.abs(found - wanted).argmin()) for wanted in (3.8, 6.3, 10, 15, 25, 40, 60, 80)]
    width, height, gap = 96, 88, 8
    shapes = []
    for column, place in enumerate(places):
        x = gap + column * (width + gap)
        shapes.append(_square(x, gap, width / 2, _RECORDS[first], height))
        shapes.append(_square(x + width / 2, gap, width / 2, _RECORDS[place], height))
        shapes.append(_text(x + width / 2, gap + height + 20, f"ΔE {found[place]:.1f}", "name"))
        shapes.append(_text(x + width / 2, gap + height + 38, _RECORDS[place].name.zh, "name"))
    return _svg(gap + len(places) * (width + gap), height + 56, shapes, "绯红 beside other colours")


def triangle() -> str:
    """The greatest detour that is shorter than the straight way."""
    ends = [_PLACES[slug] for slug in ("yang-hong", "lao-yin", "qing-cui")]
    side, gap, top = 96, 150, 56
    xs = [24 + number * (side + gap) for number in range(3)]
    shapes = []
    for x, place in zip(xs, ends, strict=True):
        shapes.append(_square(x, top, side, _RECORDS[place]))
        shapes.append(_text(x + side / 2, top + side + 20, _RECORDS[place].name.zh, "name"))
    for left in (0, 1):
        delta_e = _delta_e_to_all(ends[left])[ends[left + 1]]
        middle = (xs[left] + side + xs[left + 1]) / 2
        shapes.append(_line(xs[left] + side + 8, top + side / 2, xs[left + 1] - 8, top + side / 2))
        shapes.append(_text(middle, top + side / 2 - 8, f"ΔE {delta_e:.1f}", "name"))
    delta_e = _delta_e_to_all(ends[0])[ends[2]]
    start, end = xs[0] + side / 2, xs[2] + side / 2
    shapes.append(f'<path d="M{start} {top - 6} V26 H{end} V{top - 6}" class="line"/>')
    shapes.append(_text((start + end) / 2, 18, f"ΔE {delta_e:.1f}", "name"))
    return _svg(xs[2] + side + 24, top + side + 36, shapes, "A detour that is shorter than the straight way")


def charge() -> str:
    """A charge whose answer is lost, and its retry; then one that was never committed."""
    steps: tuple[_Step, ...] = (
        (0, 1, "POST /v1/match, Idempotency-Key: K"),
        (1, 2, "one call: key, account, limits, K, quota"),
        (2, "charge and response are stored: one commit"),
        (2, 1, "charged"),
        (1, -1, "200, and the connection breaks"),
        (0, 1, "the same request, the same K"),
        (1, 2, "the same call"),
        (2, 1, "replayed: the stored response"),
        (1, 0, "200, Idempotency-Replayed: true. One charge"),
        (0, 1, "another request, key L"),
        (1, 2, "the same call"),
        (2, "power fails before commit: nothing happened"),
        (1, 0, "503 usage_commit_failed, Retry-After: 1"),
        (0, 1, "the same request, the same L"),
        (1, 2, "the same call"),
        (2, 1, "charged"),
        (1, 0, "200. One charge"),
    )
    return _sequence(("your server", "sepu", "Postgres"), 300, steps, "A charge whose answer is lost, and its retry")


def request() -> str:
    """The path of a metered request through the service."""
    steps: tuple[_Step, ...] = (
        (0, 1, "POST /v1/match over TLS"),
        (1, "ends TLS, limits each address"),
        (1, 2, "the request"),
        (2, "checks the key's tag and the input, computes the answer"),
        (2, 3, "one call: sepu.meter_request"),
        (3, "API key, abuse limit, idempotency, quota; stores charge and answer: one commit"),
        (3, 2, "charged, or replayed"),
        (2, 1, "the stored answer"),
        (1, 0, "200 and the answer"),
    )
    return _sequence(("client", "nginx", "worker", "Postgres"), 230, steps, "The path of a request")


def house() -> str:
    """The layers of the code: each imports only layers below it."""
    rows = (
        ((0, 720, "cli", "the operator's commands"),),
        (
            (0, 550, "server", "gunicorn, workers, request log, metrics, webhooks"),
            (560, 160, "console", "operators' pages"),
        ),
        (
            (0, 410, "http", "the order of checks, headers, status codes"),
            (420, 300, "admin", "accounts, plans, keys, bills"),
        ),
        (
            (0, 270, "operations", "match and search as functions"),
            (280, 440, "metering", "what a request asks of the ledger"),
        ),
        (
            (0, 270, "library", "the release, colours, images"),
            (280, 440, "database", "all SQL, connections, migrations"),
        ),
        ((0, 270, "cext, data", "the compiled core; the facts"), (280, 440, "Postgres", "the ledger")),
    )
    height, step, edge = 48, 56, 10
    shapes = []
    for row, boxes in enumerate(rows):
        for x, width, name, what in boxes:
            y = edge + row * step
            shapes += [_box(edge + x, y, width, height), _text(edge + x + width / 2, y + 20, name, "name")]
            shapes.append(_text(edge + x + width / 2, y + 38, what, "said"))
    return _svg(720 + 2 * edge, 2 * edge + len(rows) * step - step + height, shapes, "The layers of the code")


def month() -> str:
    """Where the units of a month go: the example of docs/billing.md."""
    rows = (
        ("limit 2400", (("plan", 2000), ("granted", 400))),
        ("used", (("committed", 1790), ("remaining", 610))),
        ("bill", (("to bill", 1670), ("credited", 120))),
    )
    left, unit, height, step = 100, 0.24, 36, 52
    shapes = []
    for number, (name, parts) in enumerate(rows):
        x, y = float(left), 10 + number * step
        shapes.append(_text(left - 12, y + 23, name, "note"))
        for part, units in parts:
            label = f"{part} {units}"
            shapes.append(_box(x, y, units * unit, height))
            inside = units * unit > 80  # pixels of a label
            shapes.append(_text(x + (units * unit / 2 if inside else 80), y + 23, label, "said"))
            x += units * unit
    return _svg(left + 2400 * unit + 14, 10 + len(rows) * step, shapes, "Where the units of a month go")


PICTURES: dict[str, Callable[[], str]] = {
    "terminal.svg": terminal,
    "chart.svg": chart,
    "lab.svg": lab,
    "difference.svg": neighbours,
    "triangle.svg": triangle,
    "charge.svg": charge,
    "request.svg": request,
    "house.svg": house,
    "month.svg": month,
}


def _sequence(whos: Sequence[str], apart: int, steps: Sequence[_Step], title: str) -> str:
    left, top, step = 50, 46, 36
    xs = [left + number * apart for number in range(len(whos))]
    floor = top + (len(steps) + 1) * step
    shapes = []
    for x, who in zip(xs, whos, strict=True):
        shapes += [_text(x, 24, who, "name"), _line(x, top - 12, x, floor - 12)]
    for number, found in enumerate(steps, 1):
        y = top + number * step - 8
        if len(found) == 2:
            shapes.append(_text(xs[found[0]] - 8, y, found[1], "note"))
            continue
        source, target, said = found
        end = xs[0] + apart / 5 if target < 0 else xs[target]
        shapes.append(_arrow(xs[source], y, end, y))
        if target < 0:
            shapes.append(f'<path d="M{end - 14} {y - 6} l12 12 m0 -12 l-12 12" class="break"/>')
        shapes.append(_text((xs[source] + end) / 2, y - 6, said, "said"))
    return _svg(xs[-1] + left, floor, shapes, title)


def _read(terminal: int) -> bytes:
    """Reads what a program printed; nothing when it has ended (Linux says EIO then)."""
    try:
        return os.read(terminal, 1 << 16)
    except OSError:
        return b""


def _delta_e_to_all(place: int) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    """Returns the CIEDE2000 differences of one colour to all."""
    return np.asarray(sepu.ciede2000(np.repeat(_LAB[place : place + 1], len(_LAB), 0), _LAB))


def _title(record: Record) -> str:
    name = record.name
    return f"<title>{escape(f'{name.zh} {name.pinyin}, {name.en}, {record.hex}')}</title>"


def _square(x: float, y: float, width: float, record: Record, height: float | None = None) -> str:
    return (
        f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height or width:g}" fill="{record.hex}" class="square">'
        f"{_title(record)}</rect>"
    )


def _dot(x: float, y: float, record: Record) -> str:
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="6" fill="{record.hex}" class="dot">{_title(record)}</circle>'


def _line(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" class="line"/>'


def _box(x: float, y: float, width: float, height: float) -> str:
    return f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="3" class="box"/>'


def _arrow(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" class="arrow" marker-end="url(#tip)"/>'


def _text(x: float, y: float, text: str, kind: str = "scale") -> str:
    return f'<text x="{x:g}" y="{y:g}" class="{kind}">{escape(text)}</text>'


def _svg(width: float, height: float, shapes: Iterable[str], title: str) -> str:
    """On its own background, which is light or dark as the browser prefers."""
    style: Sequence[str] = (
        ":root { --ground: #fff; --ink: #333; --pale: #555; --line: #ccc }",
        "@media (prefers-color-scheme: dark) { :root { --ground: #1e2129; --ink: #ddd; --pale: #bbb; --line: #555 } }",
        f".ground {{ fill: var(--ground) }} text {{ font: 12px {_FONT}; fill: var(--ink) }}",
        ".name, .said { text-anchor: middle } .note { text-anchor: end; font-style: italic }",
        ".name { font-size: 14px } .scale { font-size: 17px; fill: var(--pale) }",
        ".note, .scale { paint-order: stroke; stroke: var(--ground); stroke-width: 4px }",
        ".typed, .printed { font: 15px ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace }",
        ".typed { font-weight: 700 }",
        ".line, .box { stroke: var(--line); fill: none } .dot, .square { stroke: #bbb; stroke-width: 0.4 }",
        ".arrow { stroke: var(--ink) } .tip { fill: var(--ink) }",
        ".break { stroke: #c83c23; stroke-width: 2.5; fill: none }",
    )
    tip = '<marker id="tip" markerWidth="9" markerHeight="8" refX="9" refY="4" orient="auto">'
    tip += '<path d="M0 0 L9 4 L0 8 z" class="tip"/></marker>'
    lines = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}" '
        f'viewBox="0 0 {width:g} {height:g}" role="img">',
        f"<title>{escape(title)}</title>",
        f"<style>{' '.join(style)}</style>",
        f"<defs>{tip}</defs>",
        f'<rect width="{width:g}" height="{height:g}" class="ground"/>',
        *shapes,
        "</svg>",
    )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Writes them."""
    for name, draw in PICTURES.items():
        (IMAGES / name).write_text(draw(), "utf-8")


if __name__ == "__main__":
    main()
