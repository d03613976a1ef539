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


def _stack(frame: FrameType | None, outermost: FrameType) -> str:
    names: list[str] = []
    while frame is not None and frame is not outermost:
        if name := _name(frame):
            names.append(name)
        frame = frame.f_back
    return ";".join(reversed(names[:-1] or names))  # without the lambda that is counted


def executed(run: Callable[[], object]) -> dict[str, int]:
    """Returns how many opcodes each stack executes in one call."""
    stacks: Counter[str] = Counter()
    outermost, last, stack = sys._getframe(), sys._getframe(), ""

    def step(frame: FrameType) -> None:
        nonlocal last, stack
        if frame is not last:  # another function executes
            last, stack = frame, _stack(frame, outermost)
        stacks[stack] += 1

    if sys.version_info < (3, 12):

        def opcode(frame: FrameType, event: str, _: object) -> Any:  # noqa: ANN401
            if event == "opcode":
                step(frame)
            return opcode

        def call(frame: FrameType, *_: object) -> Any:  # noqa: ANN401
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
            return opcode

        sys.settrace(call)
        try:
            run()
        finally:
            sys.settrace(None)
    else:
        monitoring, tool = sys.monitoring, sys.monitoring.PROFILER_ID
        monitoring.use_tool_id(tool, "sepu")
        monitoring.register_callback(tool, monitoring.events.INSTRUCTION, lambda *_: step(sys._getframe(1)))
        monitoring.set_events(tool, monitoring.events.INSTRUCTION)
        try:
            run()
        finally:
            monitoring.set_events(tool, 0)
            monitoring.free_tool_id(tool)
    stacks.pop("", None)
    return dict(stacks)


def function(stack: str) -> str:
    """Returns the function that executes; for an import, the outermost outside sepu, and the module that asks."""
    names = stack.split(";")
    own = max((place for place, name in enumerate(names) if name.startswith("import sepu")), default=-1)
    others = [name for name in names[own + 1 :] if name.startswith("import ")]
    if others:
        return f"{others[0]}, by {names[own].removeprefix('import ')}" if own >= 0 else others[0]
    return names[own] if own >= 0 else names[-1]
