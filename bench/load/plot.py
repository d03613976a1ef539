"""One SVG: latency by percentile, and throughput over time."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10

from bench.load.figures import BUCKET_SECONDS, percentile

_WIDTH, _HEIGHT = 380, 240
_LEFT, _TOP = 56, 34
_COLOURS = ("#c83c23", "#4c8dae", "#789262", "#ca6924", "#815476", "#3d3b4f")
_SHARES = (0, 50, 75, 90, 95, 99, 99.5, 99.9, 99.95, 99.99)
_TICKS = (0, 90, 99, 99.9, 99.99)


@dataclass(frozen=True, slots=True)
class Series:
    """A line in both panels."""

    name: str
    latencies: Sequence[float]  # sorted, seconds
    timeline: Sequence[int]  # answers in each tenth of a second


def draw(title: str, series: Sequence[Series]) -> str:
    """The whole picture."""
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {2 * (_WIDTH + _LEFT) + 40} {_HEIGHT + _TOP + 60}"'
        ' font-family="sans-serif" font-size="11">',
        '<rect width="100%" height="100%" fill="#fff"/>',
        f'<text x="{_LEFT}" y="20" font-size="13" font-weight="bold">{escape(title)}</text>',
        *_latency(series),
        *_throughput(series),
    ]
    for place, (one, colour) in enumerate(zip(series, _COLOURS, strict=False)):
        x = _LEFT + 190 * place
        y = _TOP + _HEIGHT + 50
        lines.append(f'<line x1="{x}" y1="{y - 4}" x2="{x + 18}" y2="{y - 4}" stroke="{colour}" stroke-width="2"/>')
        lines.append(f'<text x="{x + 24}" y="{y}">{escape(one.name)}</text>')
    return "\n".join([*lines, "</svg>", ""])


def _latency(series: Sequence[Series]) -> list[str]:
    values = [value for one in series for value in (one.latencies[0], one.latencies[-1]) if value > 0]
    low, high = floor(log10(min(values))), ceil(log10(max(values)))
    high = max(high, low + 1)

    def x(share: float) -> float:
        return _LEFT + _WIDTH * -log10(1 - share / 100) / 4

    def y(seconds: float) -> float:
        return _TOP + _HEIGHT * (high - log10(seconds)) / (high - low)

    lines = [_caption(_LEFT, "latency by percentile")]
    for power in range(low, high + 1):
        lines += _grid(_LEFT, y(10.0**power), f"{10.0 ** (power + 3):g} ms")
    lines += [_tick(x(share), f"{share:g} %") for share in _TICKS]
    for one, colour in zip(series, _COLOURS, strict=False):
        known = [share for share in _SHARES if share < 100 * (1 - 1 / (len(one.latencies) + 1))]
        lines.append(_line(colour, [(x(share), y(percentile(one.latencies, share))) for share in known]))
    return lines


def _throughput(series: Sequence[Series]) -> list[str]:
    left = 2 * _LEFT + _WIDTH + 20
    rates = [[count / BUCKET_SECONDS for count in one.timeline] for one in series]
    most = max((rate for one in rates for rate in one), default=1) or 1
    step = 10.0 ** floor(log10(most))
    top = ceil(most / step) * step
    seconds = max((len(one) for one in rates), default=1) * BUCKET_SECONDS or 1

    def y(rate: float) -> float:
        return _TOP + _HEIGHT * (1 - rate / top)

    lines = [_caption(left, "answers a second, over seconds")]
    for rate in (0.0, top / 2, top):
        lines += _grid(left, y(rate), f"{rate:,.0f}")
    lines += [_tick(left + _WIDTH * part, f"{seconds * part:g}") for part in (0, 0.5, 1)]
    for one, colour in zip(rates, _COLOURS, strict=False):
        points = [(left + _WIDTH * at * BUCKET_SECONDS / seconds, y(rate)) for at, rate in enumerate(one)]
        lines.append(_line(colour, points))
    return lines


def _caption(x: float, text: str) -> str:
    return f'<text x="{x}" y="{_TOP + _HEIGHT + 32}" fill="#555">{text}</text>'


def _grid(left: float, y: float, label: str) -> list[str]:
    return [
        f'<line x1="{left}" y1="{y:.1f}" x2="{left + _WIDTH}" y2="{y:.1f}" stroke="#ddd"/>',
        f'<text x="{left - 5}" y="{y + 4:.1f}" text-anchor="end" fill="#555">{label}</text>',
    ]


def _tick(x: float, label: str) -> str:
    return f'<text x="{x:.1f}" y="{_TOP + _HEIGHT + 16}" text-anchor="middle" fill="#555">{label}</text>'


def _line(colour: str, points: Sequence[tuple[float, float]]) -> str:
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>'
