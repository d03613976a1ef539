"""A server against the document, by schemathesis: its config and hooks lie beside this file.

SEPU_SCHEMA_EXAMPLES asks for so many examples, at random; without it the few are always the same.
"""

import os
import socket
import socketserver
import subprocess
import sysconfig
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from tests.openapi.document import PATH
from tests.serving import Server

from sepu.admin import accounts

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
SCHEMATHESIS = Path(sysconfig.get_path("scripts")) / "schemathesis"
EXAMPLES = os.environ.get("SEPU_SCHEMA_EXAMPLES")
ENDLESS = 2**31 - 1
# meinheld's parser knows no QUERY, and refuses it by itself with 400.
WITHOUT_QUERY = """
[phases.coverage]
unexpected-methods = ["get", "put", "post", "delete", "options", "patch", "trace"]
"""


def pump(source: socket.socket, sink: socket.socket) -> None:
    try:
        while part := source.recv(65536):
            sink.sendall(part)
        sink.shutdown(socket.SHUT_WR)
    except OSError:  # the other side is gone
        pass


@contextmanager
def over_tcp(server: Server) -> Iterator[str]:
    """The server's URL; schemathesis knows no Unix sockets."""
    if not server.address.startswith("unix:"):
        yield f"http://{server.address}"
        return

    class Forward(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with server.socket() as inner:
                back = threading.Thread(target=pump, args=(inner, self.request))
                back.start()
                pump(self.request, inner)
                back.join()

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Forward) as front:
        front.daemon_threads = True
        threading.Thread(target=front.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{front.server_address[1]}"
        front.shutdown()


@pytest.mark.timeout(0 if EXAMPLES else 300)  # the few take seconds, but the machine may be busy
def test_schemathesis_finds_nothing(server: Server, connection: psycopg.Connection, tmp_path: Path) -> None:
    accounts.set_plan(connection, "endless", match_limit=ENDLESS, search_limit=ENDLESS, requests_per_minute=ENDLESS)
    issued = accounts.create_account(connection, "endless")
    config = tmp_path / "schemathesis.toml"
    config.write_text(
        (HERE / "schemathesis.toml").read_text() + (WITHOUT_QUERY if server.address.startswith("unix:") else "")
    )
    with over_tcp(server) as url:
        done = subprocess.run(
            [
                SCHEMATHESIS,
                "--no-color",
                f"--config-file={config}",
                "run",
                PATH,
                f"--url={url}",
                "--continue-on-failure",
                *([f"--max-examples={EXAMPLES}"] if EXAMPLES else ["--max-examples=30", "--generation-deterministic"]),
            ],
            env={
                **os.environ,
                "SEPU_API_KEY": issued.api_key,
                "SCHEMATHESIS_HOOKS_FILE": str(HERE / "hooks.py"),
            },
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
    print(done.stdout)  # noqa: T201  (pytest shows it when the test fails)
    assert done.returncode == 0
    assert "4 selected / 4 total" in done.stdout
    # What was accepted was charged: the run did not shut itself out.
    assert all(meter.committed > 0 for meter in accounts.show_usage(connection, issued.account_id).usage)
    assert server.process.poll() is None
    assert "Traceback" not in server.log.read_text()
