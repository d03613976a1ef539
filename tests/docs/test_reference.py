"""The site's reference has all of the OpenAPI document, each thing in its place."""

import html
import re
from typing import Any

import pytest
from tests.openapi.document import DEFAULT, DOCUMENT, codes, operations, resolve
from tools.site.reference import reference


def shown(document: dict[str, Any]) -> str:
    """The page's visible text and link targets."""
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


def test_one_bound_alone_is_told_as_what_it_is() -> None:
    assert " at least 1 |" in row(section("Library"), "recordCount")
    assert " at most 10 items |" in row(section("SearchResponse"), "results")


def test_links_of_the_page_have_targets() -> None:
    page = reference(DOCUMENT)
    targets = set(re.findall(r"\{ #(\S+) \}|id=\"([^\"]+)\"", page))
    links = set(re.findall(r"\]\(#([^)]+)\)", page))
    assert links
    assert links <= {name for pair in targets for name in pair}


def test_markdown_reads_nothing_in_code() -> None:
    assert re.search(r"<code>[^<]*[*\[\\`|$][^<]*</code>", reference(DOCUMENT)) is None
    assert r"matching ^\s*\S[\s\S]{0,62}\S\s*$" in PAGE
