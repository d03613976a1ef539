"""Building the release from the facts: the rule, the totals, and the same bytes every time."""

import csv
import json
from collections import Counter
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from shutil import copytree

import pytest
from click.testing import CliRunner

from sepu.library.build import main
from sepu.library.facts import Color, FactsError, Reading, Thresholds, load_facts
from sepu.library.release import load_release
from sepu.library.reliability import Assessment, judge

DATA = Path(__file__).parents[2] / "data"
FACTS = DATA / "facts"
VOICES = {"book": "author", "cards": "author", "guide": "guide", "big": "dictionary", "small": "dictionary"}

# Greys, at differences from OURS of about 4, 14 and 33.
OURS, NEAR, FURTHER, FAR = "#808080", "#8A8A8A", "#A8A8A8", "#FFFFFF"


def verdict(*readings: tuple[str, str | None], conflicts: int = 0, agree: float = 12, far: float = 20) -> Assessment:
    color = Color(1, "灰白", "灰色", "灰色", "huī sè", "Grey", "hui-se", OURS, conflicts)
    rows = [Reading(source, "灰色", value, None, None, None) for source, value in readings]
    return judge(color, rows, VOICES, Thresholds(agree, far, lineage_conflict=5))


@pytest.fixture
def facts(tmp_path: Path) -> Path:
    """A copy of the facts that tests may change."""
    return copytree(FACTS, tmp_path / "facts")


def change(path: Path, old: str, new: str) -> None:
    text = path.read_text("utf-8")
    assert text.count(old) >= 1
    path.write_text(text.replace(old, new, 1), "utf-8")


# The rule


@pytest.mark.parametrize(
    ("readings", "conflicts", "reliability", "reason", "voices"),
    [
        ([("guide", NEAR), ("big", None)], 0, "verified", "name-and-colour-corroborated", ("dictionary", "guide")),
        ([("guide", FAR), ("book", NEAR)], 0, "verified", "name-and-colour-corroborated", ("author", "guide")),
        ([("guide", NEAR), ("book", NEAR)], 1, "verified", "name-and-colour-corroborated", ("author", "guide")),
        ([("guide", NEAR), ("book", NEAR)], 2, "disputed", "copies-disagree", ("author", "guide")),
        ([("guide", FAR), ("big", None)], 0, "disputed", "all-independent-values-far", ("dictionary", "guide")),
        ([("guide", FAR)], 0, "disputed", "all-independent-values-far", ("guide",)),
        ([("guide", FURTHER), ("big", None)], 0, "attributed", "independent-values-differ", ("dictionary", "guide")),
        ([("book", NEAR), ("cards", NEAR)], 0, "attributed", "single-attestation", ("author",)),
        ([("big", None), ("small", None)], 0, "attributed", "name-attested-no-independent-value", ("dictionary",)),
        ([], 0, "attributed", "classic-list-only", ()),
    ],
)
def test_the_rule(
    readings: list[tuple[str, str | None]], conflicts: int, reliability: str, reason: str, voices: tuple[str, ...]
) -> None:
    found = verdict(*readings, conflicts=conflicts)
    assert (found.reliability, found.reason, found.attested_by) == (reliability, reason, voices)


def test_a_voice_is_as_near_as_its_nearest_value() -> None:
    found = verdict(("book", FAR), ("cards", NEAR), ("guide", FURTHER))
    assert found.nearest is not None
    assert found.farthest is not None
    assert (found.nearest.source, found.farthest.source) == ("cards", "guide")


def test_the_thresholds_belong_to_the_nearer_side() -> None:
    exact = verdict(("guide", FURTHER)).nearest
    assert exact is not None
    for agree, far, reliability in ((exact.delta_e, 99, "verified"), (0, exact.delta_e, "attributed")):
        assert verdict(("guide", FURTHER), ("big", None), agree=agree, far=far).reliability == reliability


# The release


def test_every_reading_and_source_reaches_the_release() -> None:
    projection = json.loads((DATA / "release" / "source-projection.json").read_bytes())
    with (FACTS / "readings.csv").open(encoding="utf-8") as file:
        read = Counter(row["source"] for row in csv.DictReader(file))
    assert read == Counter(reading["source"] for record in projection["records"] for reading in record["readings"])
    rights = json.loads((DATA / "release" / "rights.json").read_bytes())
    assert {entry["id"] for entry in rights} == {*read, "classic"}
    assert all(entry["attribution"] and entry["rights"] and entry["used"] for entry in rights)


def test_the_files_are_canonical() -> None:
    for name in ("library", "manifest", "rights", "source-projection"):
        text = (DATA / "release" / f"{name}.json").read_bytes().decode("utf-8")
        again = json.dumps(json.loads(text), ensure_ascii=False, sort_keys=True, indent=1, separators=(",", ": "))
        assert text == f"{again}\n"


def test_the_command_writes_what_is_committed_and_says_so(facts: Path, tmp_path: Path) -> None:
    """Into a new directory, and again. It has another version, so that the output is of the release that it wrote."""
    version, spellings = load_release().manifest.version, tmp_path / "spellings.pxi"
    change(facts / "release.json", f'"version": "{version}"', '"version": "9.9.9"')
    for _ in range(2):
        result = CliRunner().invoke(main, [str(facts), str(tmp_path / "release"), str(spellings)])
        assert result.exit_code == 0, result.output
    built, committed = (
        {path.name: path.read_bytes() for path in of.iterdir()} for of in (tmp_path / "release", DATA / "release")
    )
    manifest = built["manifest.json"].replace(b'"version": "9.9.9"', f'"version": "{version}"'.encode())
    assert built | {"manifest.json": manifest} == committed
    assert spellings.read_bytes() == (DATA.parent / "cext" / "spellings.pxi").read_bytes()
    assert "release 9.9.9 (commercial): 161 records" in result.output
    release = load_release(tmp_path / "release")
    ratings = Counter(record.reliability for record in release.records)
    assert ", ".join(f"{ratings[each]} {each}" for each in ("verified", "attributed", "disputed")) in result.output
    assert f"; {release.manifest.value_mismatch_count} with another value elsewhere" in result.output
    for name in built.keys() - {"manifest.json"}:
        assert f"{sha256(built[name]).hexdigest()}  {name}\n" in result.output


# The facts


def test_the_names_are_well_formed() -> None:
    colors = load_facts(FACTS).colors
    assert len({color.zh for color in colors}) == len(colors) == 161
    for color in colors:
        assert len(color.zh_hant) == len(color.zh) == len(color.pinyin.split())


def test_traditional_forms() -> None:
    simplified = ["朱红", "姜黄", "葱绿", "绿沈", "松花色", "群青", "苍黄", "胭脂", "丹", "秋香色", "蟹壳青", "黄栌"]
    traditional = {color.zh: color.zh_hant for color in load_facts(FACTS).colors}
    assert " ".join(map(traditional.__getitem__, simplified)) == (
        "朱紅 薑黃 蔥綠 綠沈 松花色 群青 蒼黃 胭脂 丹 秋香色 蟹殼青 黃櫨"
    )


@pytest.mark.parametrize(
    ("file", "spoil", "message"),
    [
        ("colors.csv", lambda path: path.unlink(), "colors.csv cannot be read"),
        ("release.json", lambda path: change(path, "1.0.0", "one"), "release.json"),
        ("sources.json", lambda path: change(path, "{", "["), "sources.json"),
        ("colors.csv", lambda path: change(path, "#FFB3A7", "#ffb3a7"), "colors.csv, line 2"),
        ("colors.csv", lambda path: change(path, "\n2,", "\n3,"), "ordinals"),
        ("colors.csv", lambda path: change(path, "fei-se", "fen-hong"), "colors.csv: a slug comes twice"),
        ("colors.csv", lambda path: change(path, "綠沈", "綠色"), "色 stands for 色 and for 沈"),
        ("readings.csv", lambda path: change(path, "sepu1957", "sepu1958"), "has no source sepu1958"),
        ("readings.csv", lambda path: change(path, "sepu1957", "classic"), "has no source classic"),
        ("readings.csv", lambda path: change(path, "粉红", "粉紅"), "粉紅 is not in colors.csv"),
        ("readings.csv", lambda path: change(path, "粉红", "品红"), "readings.csv: a source and zh comes twice"),
        ("readings.csv", lambda path: change(path, "粉红,exact,", "粉红,exact,,"), "readings.csv, line 2"),
        ("readings.csv", lambda path: change(path, "品红,exact", '"品红,exact'), "readings.csv, line"),
        ("variants.csv", lambda path: change(path, "moe,燕支", "moi,燕支"), "has no source moi"),
        ("variants.csv", lambda path: change(path, "燕支", "丹"), "丹 does not stand for one of our names only"),
        ("variants.csv", lambda path: change(path, "支,胭脂", "支,燕支"), "燕支 does not stand for one of our names"),
        ("variants.csv", lambda path: change(path, "燕支", "燕脂"), "variants.csv: a written comes twice"),
        ("pronunciations.csv", lambda path: change(path, "unicode", "moi"), "壳 has no source or is in none"),
        ("pronunciations.csv", lambda path: change(path, "壳", "龘"), "龘 has no source or is in none"),
        ("spellings.csv", lambda path: change(path, "unicode", "moi"), "spellings.csv: sources.json has no source moi"),
        (
            "spellings.csv",
            lambda path: change(path, "⺝,月", "⺝,龘"),
            "⺝ does not stand for a character of our names",
        ),
        ("spellings.csv", lambda path: change(path, "⺝", "红"), "红 does not stand for a character of our names only"),
    ],
)
def test_facts_that_do_not_hold_together(
    facts: Path, tmp_path: Path, file: str, spoil: Callable[[Path], None], message: str
) -> None:
    spoil(facts / file)
    with pytest.raises(FactsError, match=message):
        main([str(facts), str(tmp_path / "out"), str(tmp_path / "spellings.pxi")], standalone_mode=False)
    assert not (tmp_path / "out").exists()
