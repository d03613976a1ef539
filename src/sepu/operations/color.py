"""The interface's Color: the minimal record that match and search return."""

from sepu.library.records import Record


def color(record: Record) -> dict[str, str | dict[str, str]]:
    """Returns the members in the order of the interface. The traditional name is for searching only."""
    name = record.name
    return {
        "slug": record.slug,
        "name": {"zh": name.zh, "en": name.en, "pinyin": name.pinyin},
        "hex": record.hex,
        "reliability": record.reliability,
    }
