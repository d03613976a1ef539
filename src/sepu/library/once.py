"""Makes values on first use, in one thread."""

from functools import cached_property
from threading import RLock
from typing import TypeVar

T = TypeVar("T")

_making = RLock()


class once(cached_property[T]):  # noqa: N801  # as property and cached_property
    """A cached property that is made only once: other threads wait for the same value. Later uses take no lock."""

    def __get__(self, instance: object, owner: type | None = None) -> T:  # type: ignore[override]
        """Returns the value; makes it, unless another thread has."""
        with _making:
            return super().__get__(instance, owner)
