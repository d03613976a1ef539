"""The page of errors says what is so."""

import re
from urllib.parse import quote

import psycopg
from docs.site.errors import MISTAKES, PAGE, page
from tests.serving import Server

from sepu.admin import accounts
from sepu.admin.usage import show_usage
from sepu.http.errors import ERRORS, Again
from sepu_client.errors import error_class


def test_the_page_is_written_from_the_table() -> None:
    assert PAGE.read_text("utf-8") == page()


def test_each_mistake_leads_to_its_line(connection: psycopg.Connection, uvloop: Server) -> None:
    issued = accounts.create_account(connection, "standard")
    answers = {}
    for mistake in MISTAKES:
        sent: dict[str, str | None] = {
            "Authorization": f"Bearer {issued.api_key}",
            "Idempotency-Key": f"mistake-{mistake.anchor}",
            "Content-Type": "application/json",
            **mistake.headers,
        }
        method, target = mistake.line.split(" ")
        headers = {name: value.replace("KEY", issued.api_key) for name, value in sent.items() if value is not None}
        body = None if mistake.body is None else mistake.body.encode()
        answers[mistake.anchor] = uvloop.request(method, quote(target, safe="/?&=+"), headers, body).error
    assert answers == {mistake.anchor: mistake.code for mistake in MISTAKES}
    assert [meter.committed for meter in show_usage(connection, issued.account_id).usage] == [0, 0]


def test_each_code_and_each_mistake_has_an_anchor_of_its_own() -> None:
    text = PAGE.read_text("utf-8")
    anchors = [*re.findall(r"^## (\w+)$", text, re.MULTILINE), *re.findall(r'<a id="([\w-]+)">', text)]
    assert len(anchors) == len(set(anchors))
    assert set(anchors) == ERRORS.keys() | {mistake.anchor for mistake in MISTAKES}


def test_the_client_sends_again_what_the_page_says() -> None:
    assert {code for code, error in ERRORS.items() if error_class(error.status, code).retried} == {
        code for code, error in ERRORS.items() if error.again is Again.SAME
    }
