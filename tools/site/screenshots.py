"""The pictures of docs/console.md: `make screenshots` takes them of a real console in a real Chromium."""

import tempfile
from pathlib import Path

from PIL import Image
from tests.browser import Look, look
from tests.console.running import console
from tests.console.seeding import seed

from sepu.database.opening import connect, database

IMAGES = Path(__file__).parents[2] / "docs" / "images"


def main() -> None:
    with (
        tempfile.TemporaryDirectory(prefix="sepu-console-") as directory,
        database(None, Path(directory), create=True) as url,
        console(url) as found,
    ):
        with connect(found.owner_url) as connection:
            seed(connection)

        def shot(name: str, target: str, width: int, height: int, dark: bool = False) -> Look:
            file = str(IMAGES / f"console-{name}.png")
            return Look(f"http://{found.address}{target}", width, "dark" if dark else "light", file, height)

        looks = [
            shot("overview", "/", 1000, 760),
            shot("accounts", "/accounts?sort=match-share&desc=yes", 1280, 860),
            shot("account-dark", "/accounts/cus_8812", 1000, 1000, dark=True),
        ]
        for seen, one in zip(look(looks), looks, strict=True):
            assert (seen.complaints, seen.overflow) == ([], 0), one
            assert one.file is not None
            with Image.open(one.file) as picture:
                picture.quantize(64, dither=Image.Dither.NONE).save(one.file, optimize=True)


if __name__ == "__main__":
    main()
