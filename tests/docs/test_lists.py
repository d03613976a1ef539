"""The check of lists that `make docs` makes of each page sees what Python-Markdown breaks."""

import pytest
from docs.site.lists import fault

WRITTEN = """\
1. First, 2 - 1 of them

    - nested
    * also

    ```console
    - no item
    3. no item
    ```

2. Second
"""
SHOWN = (
    """<ol><li><p>First</p><ul><li>nested</li><li>also</li></ul><pre>- no item</pre></li><li><p>Second</p></li></ol>"""
)


def test_lists_as_written_are_fine() -> None:
    assert fault(WRITTEN, SHOWN) is None


@pytest.mark.parametrize(
    "shown",
    [
        # a new list after the block that was not nested
        SHOWN.replace("</pre></li>", "</li></ol><pre></pre><ol>"),
        # a marker as text
        SHOWN.replace("<ul><li>nested</li><li>also</li></ul>", "<ul><li>nested\n* also</li></ul>"),
        SHOWN.replace("</li><li><p>Second", "\n2. Second"),
        # a list that was not written
        f"{SHOWN}<ul><li>more</li></ul>",
    ],
)
def test_broken_lists_are_told(shown: str) -> None:
    assert shown != SHOWN
    assert fault(WRITTEN, shown) is not None


def test_a_list_may_begin_later() -> None:
    assert fault("3. third\n4. fourth\n", '<ol start="3"><li>third</li><li>fourth</li></ol>') is None
