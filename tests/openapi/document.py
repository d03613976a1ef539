"""The OpenAPI document, and the check of a response against it."""

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
from jsonschema_rs import Draft202012Validator

PATH = Path(__file__).parents[2] / "docs" / "openapi.yaml"
DOCUMENT: dict[str, Any] = msgspec.yaml.decode(PATH.read_bytes())

DEFAULT = "default"
# Headers that servers add to a response.
_TRANSPORT = {"connection", "content-length", "content-type", "date", "keep-alive", "server", "transfer-encoding"}


def resolve(node: dict[str, Any]) -> dict[str, Any]:
    """Follows a $ref, which may have no siblings."""
    while "$ref" in node:
        assert len(node) == 1, node
        found: Any = DOCUMENT
        for part in node["$ref"].removeprefix("#/").split("/"):
            found = found[part]
        node = found
    return node


def operations() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Path, method and operation."""
    for path, item in DOCUMENT["paths"].items():
        for method, operation in item.items():
            yield path, method.upper(), operation


def responses(operation: dict[str, Any]) -> dict[int, dict[str, Any]]:
    """By status, without the default."""
    return {int(status): resolve(response) for status, response in operation["responses"].items() if status != DEFAULT}


def headers(response: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """By name in lower case."""
    return {name.lower(): resolve(header) for name, header in response["headers"].items()}


def schema(content: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = content["content"]["application/json"]["schema"]
    return found


def codes(response: dict[str, Any]) -> list[str]:
    """The error codes that a response lists."""
    found: list[str] = resolve(schema(response))["properties"]["error"]["enum"]
    return found


def examples(holder: dict[str, Any]) -> dict[str, Any]:
    """The values of the examples of a parameter, header or body."""
    if "example" in holder:
        return {"": holder["example"]}
    return {name: resolve(example)["value"] for name, example in holder["examples"].items()}


def answer(operation: dict[str, Any]) -> dict[str, Any]:
    """The body of the success example; test_document.py checks that it is real."""
    (found,) = examples(responses(operation)[200]["content"]["application/json"]).values()
    whole: dict[str, Any] = found
    return whole


# Clients must tolerate new members in a response, so the document allows them. Tests must notice them.
_CLOSED = {
    name: {**found, "additionalProperties": False} if "properties" in found else found
    for name, found in DOCUMENT["components"]["schemas"].items()
}


def validator(wanted: dict[str, Any]) -> Draft202012Validator:
    """Validates by a schema of the document, without unknown members."""
    return _validator(wanted, _CLOSED)


def validator_as_written(wanted: dict[str, Any]) -> Draft202012Validator:
    """Validates by a schema of the document, as a client does."""
    return _validator(wanted, DOCUMENT["components"]["schemas"])


def _validator(wanted: dict[str, Any], schemas: dict[str, Any]) -> Draft202012Validator:
    return Draft202012Validator(
        {**wanted, "components": {"schemas": schemas}},
        validate_formats=True,
        ignore_unknown_formats=False,
        formats={"double": lambda _: True},  # only informs generators
    )


@cache
def _validators(path: str, method: str, status: int) -> tuple[dict[str, tuple[bool, Any]], Draft202012Validator]:
    (operation,) = (found for where, how, found in operations() if (where, how) == (path, method))
    documented = responses(operation)
    assert status in documented, f"{method} {path} answers {status}, which the document does not list"
    listed = {
        name: (header.get("required", False), validator(header["schema"]))
        for name, header in headers(documented[status]).items()
    }
    return listed, validator(schema(documented[status]))


def check_response(path: str, method: str, status: int, found: Mapping[str, str], body: Any) -> None:
    """Checks that status, headers (names in lower case) and body are exactly as in the document."""
    listed, body_validator = _validators(path, method, status)
    assert set(found) - _TRANSPORT <= set(listed)
    for name, (required, header_validator) in listed.items():
        assert name in found or not required, f"{name} is missing"
        if name in found:
            header_validator.validate(int(found[name]) if name == "retry-after" else found[name])
    body_validator.validate(body)
