"""The site's reference tells all of the OpenAPI document, and each thing where it belongs."""

import html
import re
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest
from tests.openapi.document import DEFAULT, DOCUMENT, codes, operations, resolve
from tools.site.reference import reference

_OTHER = "ZQ987654321"
_NUMBER = 987654321


def shown(document: dict[str, Any]) -> str:
    """What a reader sees of the page, and where its links lead."""
    return html.unescape(re.sub(r"</?(code|span)\b[^>]*>", "", reference(document)))


PAGE = shown(DOCUMENT)


def section(heading: str) -> str:
    _, _, after = PAGE.partition(f"\n### {heading} {{")
    assert after, heading
    return re.split(r"\n##", after)[0]


def row(text: str, name: object) -> str:
    (found,) = re.findall(rf"^\| {re.escape(str(name))}(?: \(optional\))? \|.*$", text, re.MULTILINE)
    return str(found)


def one_line(text: str) -> str:
    return " ".join(text.replace("`", "").split())


def nodes(node: Any) -> Iterator[tuple[Any, Any]]:
    """Every place of the document: what holds it, and its key or index."""
    for key in tuple(node) if isinstance(node, dict) else range(len(node)):
        yield node, key
        if isinstance(node[key], dict | list):
            yield from nodes(node[key])


def made(document: dict[str, Any]) -> str | None:
    """The page, or None when the document is refused. Both are noticed."""
    try:
        return shown(document)
    except (AttributeError, KeyError, TypeError, ValueError):
        return None


@pytest.mark.parametrize(("path", "method", "operation"), list(operations()))
def test_each_operation_has_its_own(path: str, method: str, operation: dict[str, Any]) -> None:
    page = section(f"{method} {path}")
    assert one_line(operation["description"]) in one_line(page)
    for parameter in map(resolve, operation.get("parameters", [])):
        line = row(page, parameter["name"])
        assert f" {parameter['in']} |" in line
        assert ("(optional)" in line) is not parameter.get("required", False)
        bounds = (str(value).rpartition("schemas/")[2] for key, value in parameter["schema"].items() if key != "type")
        assert all(re.search(rf"(?<!\d){re.escape(value)}(?!\d)", line) for value in bounds)
    for status, response in operation["responses"].items():
        response = resolve(response)
        line = row(page, status)
        assert one_line(response["description"]) in one_line(line)
        for name, header in response.get("headers", {}).items():
            found = re.search(rf"(?<![\w-])\[?{name}\b(?:\]\([^)]*\))?( \(optional\))?", line.rpartition(" | ")[2])
            assert found
            assert bool(found[1]) is not resolve(header).get("required", False)
        schema = response["content"]["application/json"]["schema"]
        assert f"(#schema-{schema['$ref'].rpartition('/')[2]})" in line
        for code in codes(response) if status not in {"200", DEFAULT} else ():
            assert f"[{code}](#error-{code})" in line


@pytest.mark.slow
def test_no_value_of_the_document_is_lost() -> None:
    document = deepcopy(DOCUMENT)
    refused = set()
    for holder, key in nodes(document):
        value = holder[key]
        if isinstance(value, dict | list):
            continue
        holder[key] = not value if isinstance(value, bool) else _OTHER if isinstance(value, str) else _NUMBER
        page = made(document)
        if page is None:
            refused.add(key)
        elif isinstance(value, bool):
            assert page != PAGE, f"{key}: {value}"
        else:
            assert str(holder[key]) in page, f"{key}: {value}"
        holder[key] = value
    # References, tags, the kind of authorization.
    assert {key for key in refused if isinstance(key, str)} <= {"$ref", "name", "scheme", "type"}
    assert made(document) == PAGE


def test_links_of_the_page_have_targets() -> None:
    page = reference(DOCUMENT)
    targets = set(re.findall(r"\{ #(\S+) \}|id=\"([^\"]+)\"", page))
    links = set(re.findall(r"\]\(#([^)]+)\)", page))
    assert links
    assert links <= {name for pair in targets for name in pair}


def test_markdown_reads_nothing_in_code() -> None:
    assert re.search(r"<code>[^<]*[*\[\\`|$][^<]*</code>", reference(DOCUMENT)) is None
    assert r"matching ^\s*\S[\s\S]{0,62}\S\s*$" in PAGE
