"""Compares the answers by the release's grid with those of the search without it, for every 8-bit colour."""

import sys

import click
import numpy as np

from sepu._palette import Palette
from sepu.library.records import rgb_of
from sepu.library.release import load_release


def main() -> None:
    release = load_release()
    gridded = release.palette()
    general = Palette([rgb_of(record.hex) for record in release.records])
    assert gridded.has_grid
    assert not general.has_grid
    green_and_blue = np.indices((256, 256)).reshape(2, -1)
    differ = 0
    for red in range(256):
        rgb = np.stack([np.full(256 * 256, red), *green_and_blue], axis=1)
        found, expected = (palette.nearest_batch(rgb, 3) for palette in (gridded, general))
        differ += ((found[0] != expected[0]) | (found[1] != expected[1])).any(axis=1).sum()
        if red % 32 == 31:
            click.echo(f"{differ} of {(red + 1) * 256 * 256} differ")
    sys.exit(bool(differ))


if __name__ == "__main__":
    main()
