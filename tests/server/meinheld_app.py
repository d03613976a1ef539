"""The application of test_meinheld.py: the worker's process id, an echo, a pause, or a large response."""

import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any


def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    match environ["PATH_INFO"]:
        case "/echo":
            body: bytes = environ["wsgi.input"].read()
        case "/sleep":
            Path(environ["HTTP_MARKER"]).touch()
            time.sleep(float(environ["HTTP_SECONDS"]))
            body = b"slept"
        case "/big":
            body = bytes(int(environ["HTTP_SIZE"]))
        case _:
            body = str(os.getpid()).encode()
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]
