"""Counts the opcodes that Python's functions execute: by `sys.monitoring`, or on CPython 3.11 by `sys.settrace`.

A stack is a string: the functions from the outermost to the one that executes, with `;` between them. Whatever an
import executes is one entry: `import x`.
"""

import sys
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

_OWN = "import sepu"


class _Executed:
    """What has been executed so far. The stack is read anew when another function executes."""

    def __init__(self) -> None:
        self.stacks: Counter[str] = Counter()
        self._last: FrameType | None = None
        self._stack = ""
        self._outermost = sys._getframe(1)

    def step(self, frame: FrameType) -> None:
        if frame is not self._last:
            self._last, self._stack = frame, self._read(frame)
        if self._stack:
            self.stacks[self._stack] += 1

    def _read(self, frame: FrameType | None) -> str:
        names: list[str] = []
        while frame is not None and frame is not self._outermost:
            if name := _name(frame):
                names.append(name)
            frame = frame.f_back
        return ";".join(reversed(names[:-1] or names))  # without the lambda that is counted


def _name(frame: FrameType) -> str:
    code = frame.f_code
    if code.co_filename.startswith("<frozen importlib"):
        return f"import {frame.f_locals['name']}" if code.co_name == "_find_and_load" else ""
    return "" if code.co_name == "<module>" else _described(code)


@cache
def _described(code: CodeType) -> str:
    parts = ("", *Path(code.co_filename).parts)
    last = max(place for place, part in enumerate(parts) if part in {"", "src", "site-packages"})
    return f"{code.co_qualname} ({'/'.join(parts[last + 1 :][-3:])})"


def executed(run: Callable[[], object]) -> dict[str, int]:
    """Returns how many opcodes each stack executes in one call."""
    found = _Executed()
    if sys.version_info < (3, 12):

        def opcode(frame: FrameType, event: str, _: object) -> Any:  # noqa: ANN401
            if event == "opcode":
                found.step(frame)
            return opcode

        def call(frame: FrameType, *_: object) -> Any:  # noqa: ANN401
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
            return opcode

        sys.settrace(call)
        try:
            run()
        finally:
            sys.settrace(None)
        return dict(found.stacks)

    monitoring = sys.monitoring

    def instruction(_: CodeType, __: int) -> None:
        found.step(sys._getframe(1))

    monitoring.use_tool_id(monitoring.PROFILER_ID, "sepu")
    monitoring.register_callback(monitoring.PROFILER_ID, monitoring.events.INSTRUCTION, instruction)
    monitoring.set_events(monitoring.PROFILER_ID, monitoring.events.INSTRUCTION)
    try:
        run()
    finally:
        monitoring.set_events(monitoring.PROFILER_ID, 0)
        monitoring.free_tool_id(monitoring.PROFILER_ID)
    return dict(found.stacks)


def function(stack: str) -> str:
    """Returns the function that executes; of an import, the outermost of another package, with the module that asks."""
    names = stack.split(";")
    own = max((place for place, name in enumerate(names) if name.startswith(_OWN)), default=-1)
    others = [name for name in names[own + 1 :] if name.startswith("import ")]
    if others:
        return f"{others[0]}, by {names[own].removeprefix('import ')}" if own >= 0 else others[0]
    return names[own] if own >= 0 else names[-1]
