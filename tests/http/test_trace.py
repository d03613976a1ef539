"""Which `traceparent` is valid: the cases of the W3C's test suite for Trace Context (test/test.py)."""

import pytest

from sepu.http.request import trace_id

TRACE = "12345678901234567890123456789012"
PARENT = "1234567890123456"
VALID = f"00-{TRACE}-{PARENT}-01"
OTHERS_VALID = f"00-{TRACE}-{PARENT}-00", f"cc-{TRACE}-{PARENT}-01", f"cc-{TRACE}-{PARENT}-01-what-the-future-brings"


@pytest.mark.parametrize(
    "traceparent",
    [
        VALID, *OTHERS_VALID,
        "", f"{VALID}.", f"{VALID}-what-the-future-brings", f"{VALID}\n", f"{VALID},{VALID}",
        f"ff-{TRACE}-{PARENT}-01", f"cc-{TRACE}-{PARENT}-01.what-the-future-will-be-like", f"0-{TRACE}-{PARENT}-01",
        f"000-{TRACE}-{PARENT}-01", f".0-{TRACE}-{PARENT}-01", f"00-{'0' * 32}-{PARENT}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-.{TRACE[1:]}-{PARENT}-01", f"00-{TRACE[1:]}-{PARENT}-01", f"00-{TRACE}-{PARENT[1:]}-01",
        f"00-{TRACE}-{PARENT}-.0", f"00-{TRACE}-{PARENT}-1", VALID.replace("-", "_"), f"00-{'A' * 32}-{PARENT}-01",
        f"00-{'١' * 32}-{PARENT}-01",
    ],
)  # fmt: skip
def test_only_what_the_standard_allows_names_a_trace(traceparent: str) -> None:
    assert trace_id(traceparent) == (TRACE if traceparent in {VALID, *OTHERS_VALID} else None)
