"""Writes what the client has of the library: the names that CSS and the release give to different colours.

`make release` calls it.
"""

from pathlib import Path

import sepu
from sepu._names import fold
from sepu.library.css import read_css

FILE = Path(__file__).parents[1] / "client" / "src" / "sepu_client" / "ambiguous_names.py"
HEAD = '''"""Has the names that CSS and the library give to different colours, with the library's value.

Made from the release by `make release`; do not edit it.
"""

AMBIGUOUS_NAMES = {
'''


def ambiguous_names() -> str:
    """Returns the text of the file."""
    release = sepu.load()
    lines = []
    names = (name for record in release.records for name in (record.name.en, record.name.pinyin, record.slug))
    for name in sorted({fold(name) for name in names}):
        css, named = read_css(name), release.named(name)
        if css is not None and any(record.rgb != css for record in named):
            lines.append(f'    "{name}": "{named[0].hex}",\n')
    return f"{HEAD}{''.join(lines)}}}\n"


if __name__ == "__main__":
    FILE.write_text(ambiguous_names(), "utf-8")
