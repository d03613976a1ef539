"""`make pictures`: docs/photograph.ipynb, made from docs/photograph.md and run, and the picture that the page makes."""

import ast
import contextlib
import io
import json
import os
import re
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

from PIL import Image

PAGE = Path(__file__).parents[2] / "docs" / "photograph.md"
NOTEBOOK = PAGE.with_suffix(".ipynb")
PICTURE = PAGE.parent / "images" / "coffee-named.png"

_EXAMPLES = re.compile(r"^```pycon\n(.*?)^```$\n*", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"^(?:>>>|\.\.\.) ?(.*)$", re.MULTILINE)
# The notebook also displays these records, which the page only prints.
_SHOWN = "colors"
_LINK = "This page is also [a notebook](photograph.ipynb), where"


def notebook() -> tuple[str, Image.Image]:
    """Returns the page as a notebook with the outputs of its cells, and the picture that they make."""
    variables: dict[str, Any] = {}
    before = Path.cwd()
    os.chdir(PAGE.parent)
    try:
        cells = [
            {"id": f"cell-{number}", **cell} for number, cell in enumerate(_cells(PAGE.read_text("utf-8"), variables))
        ]
    finally:
        os.chdir(before)
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    document = {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(document, ensure_ascii=False, indent=1) + "\n", variables["named"]


def _cells(page: str, variables: dict[str, Any]) -> Iterator[dict[str, Any]]:
    executions = count(1)
    for number, part in enumerate(_EXAMPLES.split(page)):
        if number % 2 == 0:
            if text := part.replace(_LINK, "In this notebook").strip():
                yield {"cell_type": "markdown", "metadata": {}, "source": text.splitlines(keepends=True)}
            continue
        code = "\n".join(_CODE.findall(part))
        yield _run(code, variables, next(executions))
        if f"\n{_SHOWN} = " in code:
            yield _run(_SHOWN, variables, next(executions))


def _run(code: str, variables: dict[str, Any], number: int) -> dict[str, Any]:
    """Runs a cell as Jupyter does: its last expression is its result."""
    tree = ast.parse(code)
    last = tree.body[-1] if isinstance(tree.body[-1], ast.Expr) else None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(ast.Module(tree.body[:-1] if last else tree.body, []), PAGE.name, "exec"), variables)
        result = eval(compile(ast.Expression(last.value), PAGE.name, "eval"), variables) if last else None
    outputs: list[dict[str, Any]] = []
    if printed.getvalue():
        outputs.append(
            {"name": "stdout", "output_type": "stream", "text": printed.getvalue().splitlines(keepends=True)}
        )
    if result is not None:
        data = {"text/plain": [repr(result)]}
        if hasattr(result, "_repr_html_"):
            data["text/html"] = [result._repr_html_()]
        outputs.append({"data": data, "execution_count": number, "metadata": {}, "output_type": "execute_result"})
    return {
        "cell_type": "code",
        "execution_count": number,
        "metadata": {},
        "outputs": outputs,
        "source": code.splitlines(keepends=True),
    }


if __name__ == "__main__":
    text, named = notebook()
    NOTEBOOK.write_text(text, "utf-8")
    named.quantize(256).save(PICTURE, optimize=True)
