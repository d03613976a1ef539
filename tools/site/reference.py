"""The reference of the HTTP interface: all of the OpenAPI document. An unknown keyword is an error."""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

_Node = Mapping[str, Any]

_RANGES = (("minimum", "maximum", ""), ("minLength", "maxLength", " characters"), ("minItems", "maxItems", " items"))
_FACETS = {"format": "{}", "const": "always {}", "pattern": "matching {}", "default": "{} if left out"}
_OTHERS = {False: "no other members", True: "more members may be added"}


def reference(document: _Node, tabs: Callable[[str], str] = lambda _: "") -> str:
    """The page in Markdown, with sections for operations, headers and schemas. `tabs` has an operation's examples."""
    version, info, servers, tags, security, paths, components = _members(
        document, "openapi", "info", "servers", "tags", "security", "paths", "components"
    )
    title, release, summary, description, contact, licence = _members(
        info, "title", "version", "summary", "description", "contact", "license"
    )
    schemes, headers, responses, examples, schemas = _members(
        components, "securitySchemes", "headers", "responses", "examples", "schemas"
    )
    shared = {"headers": headers, "responses": responses}
    operations: dict[str, list[str]] = {tag["name"]: [] for tag in tags}
    for path, item in paths.items():
        for method, operation in item.items():
            (tag,) = operation["tags"]
            operations[tag].append(_operation(f"{method.upper()} {path}", operation, shared, tabs))
    sections = [f"{title} {release}, in OpenAPI {version}. {summary}", description]
    sections += [_server(server) for server in servers]
    sections += [_scheme(schemes[name]) for wanted in security for name in wanted]
    sections += [f"**Contact.** {' '.join(_members(contact, 'name'))}.", _licence(licence)]
    for tag in tags:
        name, description = _members(tag, "name", "description")
        sections += [f"## {name}", description, *operations[name]]
    rows = (
        (f'<span id="header-{name}">{_code(name)}</span>{_optional(header)}', *_header(header))
        for name, header in headers.items()
    )
    sections += ["## Headers", _table(("header", "value", ""), rows), "## Bodies of errors"]
    sections += [_table(("code", "body"), (_error(name, example) for name, example in examples.items())), "## Schemas"]
    for name, schema in schemas.items():
        sections += [f"### {name} {{ #schema-{name} }}", *_schema(schema)]
    return "\n\n".join(section.strip() for section in sections) + "\n"


def _members(node: _Node, *names: str) -> tuple[Any, ...]:
    """Returns these members. Raises ValueError for others: nothing of the document is left out in silence."""
    unknown = set(node) - set(names)
    if unknown:
        raise ValueError(f"the reference cannot show {', '.join(sorted(unknown))} of {dict(node)}")
    return tuple(node.get(name) for name in names)


def _server(server: _Node) -> str:
    url, description = _members(server, "url", "description")
    return f"**Address.** {_code(url)}. {description}"


def _licence(licence: _Node) -> str:
    name, identifier = _members(licence, "name", "identifier")
    return f"**Licence.** {name} ({_code(identifier)} of SPDX)."


def _error(name: str, example: _Node) -> tuple[str, str]:
    (body,) = _members(example, "value")
    return f'<span id="error-{name}">{_code(name)}</span>', _code(body)


def _scheme(scheme: _Node) -> str:
    kind, name, description = _members(scheme, "type", "scheme", "description")
    if (kind, name) != ("http", "bearer"):
        raise ValueError(f"the reference cannot show the security scheme {kind} {name}")
    return f"**Authorization.** Every request carries {_code('Authorization: Bearer …')}. {description}"


def _operation(heading: str, operation: _Node, shared: Mapping[str, _Node], tabs: Callable[[str], str]) -> str:
    identifier, _, summary, description, parameters, body, responses = _members(
        operation, "operationId", "tags", "summary", "description", "parameters", "requestBody", "responses"
    )
    parts = [f"### {heading} {{ #{identifier} }}", f"**{summary}** ({_code(identifier)}). {description}"]
    parts.append(tabs(identifier))
    if parameters:
        rows = (_parameter(parameter) for parameter in parameters)
        parts.append(_table(("parameter", "in", "value", ""), rows))
    if body:
        _, description, content = _members(body, "required", "description", "content")
        told, examples = _content(content, "the request")
        parts += [f"**Body**{_optional(body)}: {told}. {description}", *examples]
    answers, after = [], []
    for status, response in responses.items():
        description, headers, content, links = _members(
            _resolved(response, shared["responses"]), "description", "headers", "content", "links"
        )
        told, examples = _content(content, _code(status))
        answers.append((_code(status), f"{_line(description)}<br>{told}", _headers(headers, shared["headers"])))
        after += [*examples, *(_link(name, link, status) for name, link in (links or {}).items())]
    parts += [_table(("status", "answer", "headers"), answers), *after]
    return "\n\n".join(part.strip() for part in parts if part)


def _resolved(node: _Node, components: _Node) -> _Node:
    """Returns the header or response that a $ref without siblings names."""
    if "$ref" not in node:
        return node
    _members(node, "$ref")
    found: _Node = components[_target(node)]
    return found


def _target(node: _Node) -> str:
    reference: str = node["$ref"]
    return reference.rpartition("/")[2]


def _parameter(parameter: _Node) -> tuple[str, ...]:
    name, place, _, description, schema, examples = _members(
        parameter, "name", "in", "required", "description", "schema", "examples"
    )
    told = [_line(description)]
    for title, named in examples.items():
        (value,) = _members(named, "value")
        told.append(f"Example {_code(title)}: {_code(value)}.")
    return f"{_code(name)}{_optional(parameter)}", place, _type(schema), " ".join(told)


def _content(content: _Node, of: str) -> tuple[str, list[str]]:
    """Returns a phrase that describes a body, and its examples."""
    told, blocks = [], []
    for media, body in content.items():
        schema, examples = _members(body, "schema", "examples")
        told.append(f"{_code(media)}: {_type(schema)}")
        for name, example in examples.items():
            target, summary, value = _members(example, "$ref", "summary", "value")
            if target:
                told.append(f"[{_code(name)}](#error-{_target(example)})")
            else:
                heading = f"Example {_code(name)} of {of}" + (f" ({summary}):" if summary else ":")
                blocks.append(f"{heading}\n\n{_block(value)}")
    return ", ".join(told), blocks


def _headers(headers: _Node | None, shared: _Node) -> str:
    """A line for each; those with a description of their own in full."""
    lines = []
    for name, header in (headers or {}).items():
        if "$ref" in header:
            lines.append(f"[{_code(name)}](#header-{_target(header)}){_optional(_resolved(header, shared))}")
        else:
            value, description = _header(header)
            lines.append(f"{_code(name)}{_optional(header)}: {value}. {description}")
    return "<br>".join(lines)


def _header(header: _Node) -> tuple[str, str]:
    description, _, schema, example = _members(header, "description", "required", "schema", "example")
    return f"{_type(schema)}, such as {_code(example)}", _line(description)


def _link(name: str, link: _Node, status: str) -> str:
    identifier, description, parameters, body = _members(
        link, "operationId", "description", "parameters", "requestBody"
    )
    takes = [f"{_code(parameter)} is {_code(value)}" for parameter, value in (parameters or {}).items()]
    takes += [f"the body is {_code(body)}"] if body else []
    return f"Link {_code(name)} of {_code(status)} to [{_code(identifier)}](#{identifier}): {description} There " + (
        f"{' and '.join(takes)}."
    )


def _schema(schema: _Node) -> list[str]:
    """Paragraphs and tables of a schema that has a place of its own."""
    rest = dict(schema)
    description, properties, required = (rest.pop(name, None) for name in ("description", "properties", "required"))
    said = _type(rest)
    sections = [" ".join(filter(None, (f"{said[:1].upper()}{said[1:]}." if said else "", description)))]
    if properties:
        rows = (_property(name, member, name in required) for name, member in properties.items())
        sections.append(_table(("member", "value", ""), rows))
    others = [name for name in required or () if name not in properties]
    return sections + ([f"Required: {_codes(others)}."] if others else [])


def _property(name: str, schema: _Node, required: bool) -> tuple[str, ...]:
    rest = dict(schema)
    description = rest.pop("description", "")
    return f"{_code(name)}{_optional({'required': required})}", _type(rest), _line(description)


def _type(schema: _Node) -> str:
    """A schema in a phrase: its type, bounds and what it refers to."""
    bounds = [name for low, high, _ in _RANGES for name in (low, high)]
    target, kind, items, values, additional, examples, *_ = _members(
        schema, "$ref", "type", "items", "enum", "additionalProperties", "examples", *_FACETS, *bounds
    )
    told = []
    if target:
        told.append(f"[{_target(schema)}](#schema-{_target(schema)})")
    if kind:
        told.append(" or ".join([kind] if isinstance(kind, str) else kind) + (f" of {_type(items)}" if items else ""))
    if values:
        told.append(f"{'one of' if len(values) > 1 else 'always'} {_codes(values)}")
    told += [
        _range(schema.get(low), schema.get(high)) + unit for low, high, unit in _RANGES if {low, high} & set(schema)
    ]
    told += [text.format(_code(schema[name])) for name, text in _FACETS.items() if name in schema]
    told += [] if additional is None else [_OTHERS[additional]]
    told += [f"as {_codes(examples)}"] if examples else []
    return ", ".join(told)


def _range(low: float | None, high: float | None) -> str:
    if low == high:
        return f"exactly {low}"
    if low is not None and high is not None:
        return f"{low} to {high}"
    return f"at most {high}" if low is None else f"at least {low}"


def _optional(node: _Node) -> str:
    return "" if node.get("required") else " (optional)"


def _table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    heads = list(heads)
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _line(text: str) -> str:
    """For a cell of a table."""
    return "<br>".join(" ".join(paragraph.split()) for paragraph in text.strip().split("\n\n")).replace("|", "\\|")


def _block(value: object) -> str:
    return f"```json\n{json.dumps(value, ensure_ascii=False, indent=2)}\n```"


def _codes(values: Iterable[object]) -> str:
    return ", ".join(map(_code, values))


def _code(value: object) -> str:
    """As code, escaped from Markdown: a pattern has all of its special characters."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    entities = re.sub(r"[^\w ,./-]", lambda sign: f"&#{ord(sign[0])};", text)
    return f"<code>{entities}</code>"
