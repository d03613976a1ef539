"""One SVG: latency by percentile, and throughput over time."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10

from bench.load.figures import BUCKET_SECONDS, percentile
from bench.plot import STYLE, Panel, picture

_WIDTH, _HEIGHT = 380, 240
_LEFT, _TOP = 56, 34
_RIGHT = 2 * _LEFT + _WIDTH + 20  # where the second panel begins
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
    parts = [
        f'<style>{STYLE}</style><rect width="100%" height="100%" fill="#fff"/>',
        f'<text x="{_LEFT}" y="20" font-family="sans-serif" font-size="13" font-weight="bold">{escape(title)}</text>',
        *_latency(series),
        *_throughput(series),
    ]
    y = _TOP + _HEIGHT + 50
    for colour, one in enumerate(series):
        x = _LEFT + 190 * colour
        parts.append(f'<line class="colour{colour}" x1="{x}" y1="{y - 4}" x2="{x + 18}" y2="{y - 4}"/>')
        parts.append(f'<text class="tick" x="{x + 24}" y="{y}">{escape(one.name)}</text>')
    return picture(2 * (_WIDTH + _LEFT) + 40, _HEIGHT + _TOP + 60, parts) + "\n"


def _latency(series: Sequence[Series]) -> Iterator[str]:
    """Both axes are logarithmic: of the time, and of the share that took longer."""
    values = [value for one in series for value in (one.latencies[0], one.latencies[-1]) if value > 0]
    low, high = floor(log10(min(values))), ceil(log10(max(values)))
    powers = range(low, max(high, low + 1) + 1)
    shares = {share: -log10(1 - share / 100) for share in _SHARES}
    xs = [(shares[share], f"{share:g} %") for share in _TICKS]
    panel = Panel(_LEFT, _TOP, _WIDTH, _HEIGHT, xs, [(power, f"{10.0 ** (power + 3):g} ms") for power in powers])
    yield from panel.grid("latency by percentile")
    for colour, one in enumerate(series):
        known = [share for share in _SHARES if share < 100 * (1 - 1 / (len(one.latencies) + 1))]
        yield panel.line(colour, [(shares[share], log10(percentile(one.latencies, share))) for share in known])


def _throughput(series: Sequence[Series]) -> Iterator[str]:
    most = max((count / BUCKET_SECONDS for one in series for count in one.timeline), default=1) or 1
    step = 10.0 ** floor(log10(most))
    top = ceil(most / step) * step
    seconds = max((len(one.timeline) for one in series), default=1) * BUCKET_SECONDS or 1
    xs, ys = ([(whole * part, f"{whole * part:,g}") for part in (0, 0.5, 1)] for whole in (seconds, top))
    panel = Panel(_RIGHT, _TOP, _WIDTH, _HEIGHT, xs, ys)
    yield from panel.grid("answers a second, over seconds")
    for colour, one in enumerate(series):
        yield panel.line(colour, [(at * BUCKET_SECONDS, n / BUCKET_SECONDS) for at, n in enumerate(one.timeline)])
