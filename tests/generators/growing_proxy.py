"""A proxy that adds to each answer what a later service may add: members, a header, a mode."""

import http.client
import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

_OF_A_CONNECTION = {"connection", "content-length", "date", "server", "transfer-encoding"}


def grown(value: Any) -> Any:
    """The same with a member more in each object, and a new mode."""
    if isinstance(value, list):
        return [grown(item) for item in value]
    if not isinstance(value, dict):
        return value
    whole = {name: grown(item) for name, item in value.items()} | {"someday": {"any": [1]}}
    return whole | ({"mode": "someday"} if "mode" in value else {})


@contextmanager
def growing(address: str) -> Iterator[str]:
    """The URL of a proxy before the server at `HOST:PORT`, until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            server = http.client.HTTPConnection(address, timeout=30)
            sent = {name: value for name, value in self.headers.items() if name.lower() not in _OF_A_CONNECTION}
            server.request(self.command, self.path, body or None, sent)
            response = server.getresponse()
            answer = json.dumps(grown(json.loads(response.read()))).encode()
            server.close()
            self.send_response(response.status)
            for name, value in response.getheaders():
                if name.lower() not in _OF_A_CONNECTION:
                    self.send_header(name, value)
            self.send_header("X-Someday", "1")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        do_POST = do_GET  # noqa: N815

        def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
