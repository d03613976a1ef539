"""The documentation says what is so."""

import shutil

import psycopg
import pytest
from docs.site.pictures import IMAGES, PICTURES
from tests.docs.examples import PAGE, shell, with_answers
from tests.serving import serving

from sepu.metering import accounts


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_examples_are_what_a_server_answers(connection: psycopg.Connection, service_url: str) -> None:
    key = accounts.create_account(connection, "standard").api_key
    page = PAGE.read_text("utf-8")
    with serving("asgi", service_url) as server:
        assert with_answers(page, shell(server.address, key)) == page
    assert page.count("\n{") >= 7


@pytest.mark.parametrize("name", PICTURES)
def test_pictures_are_of_this_library(name: str) -> None:
    assert (IMAGES / name).read_text("utf-8") == PICTURES[name]()
