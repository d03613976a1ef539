"""Only an intact release loads; any other is refused, and the file named."""

import json
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from shutil import copytree
from typing import Any

import numpy as np
import pytest
from tests.core.index_queries import assert_same_answers, queries

from sepu._palette import Palette
from sepu.cli.colors import LIBRARY_SIZE
from sepu.library.release import ReleaseError, load_release

RELEASE = Path(__file__).parents[2] / "data" / "release"
FACTS = RELEASE.parent / "facts" / "release.json"
HASHES = {
    "library.json": "librarySha256",
    "source-projection.json": "sourceProjectionSha256",
    "rights.json": "rightsManifestSha256",
    "index.bin": "indexSha256",
}
FILES = ["library.json", "source-projection.json", "rights.json", "manifest.json"]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A copy of the release that tests may damage."""
    return copytree(RELEASE, tmp_path / "release")


def rewrite(directory: Path, name: str, edit: Callable[[Any], object]) -> None:
    """Edits a file, and updates its hash in the manifest."""
    path = directory / name
    content = json.loads(path.read_bytes())
    edit(content)
    path.write_text(json.dumps(content), "utf-8")
    if name in HASHES:
        digest = sha256(path.read_bytes()).hexdigest()
        rewrite(directory, "manifest.json", lambda manifest: manifest.update({HASHES[name]: digest}))


def assert_refused(directory: Path, message: str) -> None:
    with pytest.raises(ReleaseError, match=message):
        load_release(directory)


def test_the_packaged_release_loads() -> None:
    release = load_release()
    assert release == load_release(RELEASE)
    first = release.records[0]
    assert (first.ordinal, first.slug, first.hex, first.reliability) == (1, "fen-hong", "#FFB3A7", "verified")
    assert (first.name.zh, first.name.zh_hant, first.name.pinyin) == ("粉红", "粉紅", "fěn hóng")
    assert release.manifest.version == json.loads(FACTS.read_bytes())["version"]


def test_without_the_index_the_answers_are_the_same(directory: Path) -> None:
    (directory / "index.bin").unlink()
    assert_same_answers(
        load_release(RELEASE).palette(), load_release(directory).palette(), queries(np.empty((0, 3)), 100), 4
    )


def test_an_index_of_another_palette(directory: Path) -> None:
    index = Palette([(1, 2, 3)]).build_index()
    (directory / "index.bin").write_bytes(index)
    rewrite(directory, "manifest.json", lambda manifest: manifest.update(indexSha256=sha256(index).hexdigest()))
    with pytest.raises(ReleaseError, match="index.bin: index belongs to another palette"):
        load_release(directory).palette()


def test_a_release_says_its_version_not_its_bytes() -> None:
    assert repr(load_release()) == f"<Release {load_release().manifest.version}>"


def test_a_release_is_frozen() -> None:
    release: Any = load_release()
    for part, field in ((release, "records"), (release.manifest, "version"), (release.records[0], "hex")):
        with pytest.raises(AttributeError):
            setattr(part, field, None)


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file(directory: Path, name: str) -> None:
    (directory / name).unlink()
    assert_refused(directory, f"{name} cannot be read")
    (directory / name).mkdir()  # another OSError
    assert_refused(directory, f"{name} cannot be read")


@pytest.mark.parametrize("name", HASHES)
def test_one_changed_byte(directory: Path, name: str) -> None:
    content = bytearray((directory / name).read_bytes())
    content[-1] = ord(" ")
    (directory / name).write_bytes(content)
    assert_refused(directory, f"{name} is not the file that manifest.json names")


def test_each_colour_may_have_another_value_in_a_source(directory: Path) -> None:
    rewrite(directory, "manifest.json", lambda manifest: manifest.update(valueMismatchCount=LIBRARY_SIZE))
    assert load_release(directory).manifest.value_mismatch_count == LIBRARY_SIZE


def test_a_manifest_that_is_no_json(directory: Path) -> None:
    (directory / "manifest.json").write_bytes(b"{")
    assert_refused(directory, "manifest.json is malformed")


MANIFEST_EDITS: list[Callable[[Any], object]] = [
    lambda manifest: manifest.pop("version"),
    lambda manifest: manifest.update(version="1.0"),
    lambda manifest: manifest.update(mode="free"),
    lambda manifest: manifest.update(recordCount="161"),
    lambda manifest: manifest.update(recordCount=0),
    lambda manifest: manifest.update(valueMismatchCount=-1),
    lambda manifest: manifest.update(librarySha256="A" * 64),
    lambda manifest: manifest.update(more=1),
]
RECORD_EDITS: list[Callable[[Any], object]] = [
    lambda records: records[3].update(hex="#F4798"),
    lambda records: records[3].update(hex="#f47983"),
    lambda records: records[3].update(hex="#F47983\n"),
    lambda records: records[3].update(slug="Tao Hong"),
    lambda records: records[3].update(reliability="certain"),
    lambda records: records[3].update(ordinal="4"),
    lambda records: records[3]["name"].update(zh=""),
    lambda records: records[3]["name"].pop("zhHant"),
    lambda records: records[3].update(more=1),
]


@pytest.mark.parametrize(
    ("name", "edit", "message"),
    [
        *(("manifest.json", edit, "manifest.json is malformed") for edit in MANIFEST_EDITS),
        *(("library.json", edit, r"library.json is malformed: .*\$\[") for edit in RECORD_EDITS),
        (
            "library.json",
            lambda records: records.pop(),
            f"library.json has {LIBRARY_SIZE - 1} records, manifest.json {LIBRARY_SIZE}",
        ),
        ("library.json", lambda records: records.reverse(), "library.json: the ordinals"),
        (
            "library.json",
            lambda records: records[1].update(slug=records[0]["slug"]),
            "library.json: a slug comes twice",
        ),
        (
            "manifest.json",
            lambda manifest: manifest.update(valueMismatchCount=LIBRARY_SIZE + 1),
            "manifest.json: more mismatches than records",
        ),
    ],
)
def test_contents_that_do_not_hold(directory: Path, name: str, edit: Callable[[Any], object], message: str) -> None:
    rewrite(directory, name, edit)
    assert_refused(directory, message)
