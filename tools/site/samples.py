"""A Postman collection and an .http file, from the OpenAPI document: a request for each operation, with its example."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

_Node = Mapping[str, Any]

COLLECTION, HTTP_FILE = "sepu.postman_collection.json", "sepu.http"
_SCHEMA = "https://schema.getpostman.com/json/collection/v2.1.0/collection.json"
_KEY = "Idempotency-Key"

_HTTP_HEAD = """\
# {title} {version}, for the HTTP clients of JetBrains, Visual Studio Code and Visual Studio, and for httpyac.
# Define apiKey in your client's environment, not in a file that you share.
# A metered request is charged once for its key: sent again, it is replayed. For a new request change `intent`.
@baseUrl = {address}
@intent = intent-0001
"""


@dataclass(frozen=True)
class Request:
    """An operation with the values of its first example."""

    id: str
    summary: str
    description: str
    method: str
    path: str
    query: Mapping[str, str]
    body: object
    metered: bool
    replays: bool
    examples: list[tuple[int, str, object]]

    @property
    def target(self) -> str:
        """Returns path and query."""
        query = "&".join(f"{name}={quote(value)}" for name, value in self.query.items())
        return f"{self.path}?{query}" if query else self.path


def requests(document: _Node) -> Iterator[Request]:
    """Yields a request for each operation."""
    for path, item in document["paths"].items():
        for method, operation in item.items():
            parameters = [_resolved(document, parameter) for parameter in operation.get("parameters", ())]
            answers = {
                int(status): _resolved(document, answer)
                for status, answer in operation["responses"].items()
                if status != "default"
            }
            body = operation.get("requestBody")
            links = answers[200].get("links", {}).values()
            yield Request(
                operation["operationId"],
                operation["summary"],
                operation["description"],
                method.upper(),
                path,
                {of["name"]: str(_example(document, of)) for of in parameters if of["in"] == "query"},
                _example(document, body["content"]["application/json"]) if body else None,
                any(of["name"] == _KEY for of in parameters),
                any(link["operationId"] == operation["operationId"] for link in links),
                [
                    (status, name, value)
                    for status, answer in answers.items()
                    for name, value in _examples(document, answer["content"]["application/json"]).items()
                ],
            )


def collection(document: _Node) -> dict[str, Any]:
    """Returns the Postman collection. Each send makes a key; a replay repeats the last one."""
    items = []
    for request in requests(document):
        items.append(_item(request, request.summary))
        if request.replays:
            items.append(_item(request, f"{request.summary}: the same again, replayed", replay=True))
    info = document["info"]
    return {
        "info": {"name": f"{info['title']} {info['version']}", "description": info["description"], "schema": _SCHEMA},
        "auth": {"type": "bearer", "bearer": [{"key": "token", "value": "{{apiKey}}", "type": "string"}]},
        "variable": [{"key": "baseUrl", "value": _address(document)}, {"key": "apiKey", "value": ""}],
        "item": items,
    }


def http_file(document: _Node) -> str:
    """Returns the .http file."""
    info = document["info"]
    parts = [_HTTP_HEAD.format(title=info["title"], version=info["version"], address=_address(document))]
    for request in requests(document):
        headers = {"Authorization": "Bearer {{apiKey}}"}
        if request.metered:
            headers[_KEY] = f"{{{{intent}}}}-{request.id}"
        if request.body is not None:
            headers["Content-Type"] = "application/json"
        lines = [f"### {request.summary}", f"# @name {request.id}", f"{request.method} {{{{baseUrl}}}}{request.target}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        parts.append("\n".join([*lines, "", "" if request.body is None else f"{_text(request.body)}\n"]))
    return "\n".join(parts)


def _item(request: Request, name: str, *, replay: bool = False) -> dict[str, Any]:
    key = f"{request.id}Key"
    sent: dict[str, Any] = {
        "method": request.method,
        "description": request.description,
        "url": {
            "raw": f"{{{{baseUrl}}}}{request.target}",
            "host": ["{{baseUrl}}"],
            "path": request.path.strip("/").split("/"),
            "query": [{"key": name, "value": value} for name, value in request.query.items()],
        },
        "header": [{"key": _KEY, "value": f"{{{{{key}}}}}"}] if request.metered else [],
    }
    if request.body is not None:
        sent["header"].append({"key": "Content-Type", "value": "application/json"})
        sent["body"] = {"mode": "raw", "raw": _text(request.body), "options": {"raw": {"language": "json"}}}
    checks = ["pm.test('200', () => pm.response.to.have.status(200));"]
    before = []
    if request.metered and not replay:
        before.append(f"pm.collectionVariables.set('{key}', pm.variables.replaceIn('{{{{$guid}}}}'));")
    if request.metered:
        title, mark = ("replayed", "'true'") if replay else ("charged", "undefined")
        found = "pm.response.headers.get('Idempotency-Replayed')"
        checks.append(f"pm.test('{title}', () => pm.expect({found}).to.equal({mark}));")
    return {
        "name": name,
        "request": sent,
        "event": [_script("prerequest", before), _script("test", checks)],
        "response": [] if replay else [_saved(sent, *example) for example in request.examples],
    }


def _script(when: str, lines: list[str]) -> dict[str, Any]:
    return {"listen": when, "script": {"type": "text/javascript", "exec": lines}}


def _saved(sent: dict[str, Any], status: int, name: str, value: object) -> dict[str, Any]:
    return {
        "name": f"{status} {name}",
        "originalRequest": sent,
        "code": status,
        "status": HTTPStatus(status).phrase,
        "header": [{"key": "Content-Type", "value": "application/json"}],
        "body": _text(value),
        "_postman_previewlanguage": "json",
    }


def _address(document: _Node) -> str:
    server = document["servers"][0]
    defaults = {name: variable["default"] for name, variable in server.get("variables", {}).items()}
    return str(server["url"].format(**defaults))


def _resolved(document: _Node, node: _Node) -> _Node:
    while "$ref" in node:
        found: Any = document
        for part in node["$ref"].removeprefix("#/").split("/"):
            found = found[part]
        node = found
    return node


def _examples(document: _Node, holder: _Node) -> dict[str, object]:
    if "example" in holder:
        return {"": holder["example"]}
    return {name: _resolved(document, of)["value"] for name, of in holder.get("examples", {}).items()}


def _example(document: _Node, holder: _Node) -> object:
    return next(iter(_examples(document, holder).values()))


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2)
