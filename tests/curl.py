"""Runs a curl line: by curl itself where it is installed, and by Python everywhere."""

import argparse
import http.client
import os
import shlex
import string
import subprocess
from collections.abc import Callable
from urllib.parse import quote, urlsplit

import pytest
from tests.harness.serving import UnixConnection
from tests.programs import installed

needs_curl = pytest.mark.skipif(installed("curl") is None, reason="curl is not installed (Debian: apt install curl)")
SECONDS = 30


Ask = Callable[..., str]  # takes a command line and the shell's variables


def by_curl(line: str, **variables: str) -> str:
    """Runs it in a shell, as a reader would."""
    done = subprocess.run(
        line, shell=True, env={**os.environ, **variables}, capture_output=True, check=True, timeout=SECONDS
    )
    return done.stdout.decode().replace("\r\n", "\n")


def by_python(line: str, **variables: str) -> str:
    """Supports only the options of our curl lines."""
    given = _parser().parse_args(shlex.split(string.Template(line.replace("\\\n", "")).substitute(variables))[1:])
    url = urlsplit(given.url)
    data = "&".join(given.data)
    target = f"{url.path}?{data}" if given.get else url.path
    connection = http.client.HTTPConnection(url.netloc, timeout=SECONDS)
    if given.unix_socket:
        connection = UnixConnection(given.unix_socket, SECONDS)
    try:
        headers = dict(header.split(": ", 1) for header in given.header)
        if data and not given.get:
            connection.request("POST", target, data.encode(), headers)
        else:
            connection.request("GET", target, headers=headers)
        answer = connection.getresponse()
        body = answer.read().decode()
    finally:
        connection.close()
    head = [f"HTTP/1.1 {answer.status} {answer.reason}", *(": ".join(header) for header in answer.getheaders()), "", ""]
    last: str = given.write_out.replace("\\n", "\n").replace("%{http_code}", str(answer.status))
    return ("\n".join(head) if given.include else "") + body + last


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="curl", allow_abbrev=False)
    parser.add_argument("url")
    parser.add_argument("-H", "--header", action="append", default=[])
    parser.add_argument("-d", "--data", action="append", default=[])
    parser.add_argument("--data-urlencode", action="append", dest="data", type=_encoded)
    parser.add_argument("-G", "--get", action="store_true")
    parser.add_argument("-i", "--include", action="store_true")
    parser.add_argument("-s", "--silent", action="store_true")
    parser.add_argument("-w", "--write-out", default="")
    parser.add_argument("--unix-socket")
    return parser


def _encoded(given: str) -> str:
    name, value = given.split("=", 1)
    return f"{name}={quote(value, safe='')}"
