"""Checks the address before anything starts. gunicorn would retry for seconds, or replace a socket in use."""

import errno
import os
import socket
from pathlib import Path

from sepu import limits
from sepu.errors import StartError
from sepu.server.gunicorn import Worker


def address(host: str, port: int, bind: str | None, worker: Worker) -> str:
    """Returns the address for gunicorn's `bind`, after checking that it is free.

    Raises:
        StartError: `bind` is not a Unix socket, the worker needs one, or the address is not available.
    """
    if bind is None:
        if worker == "meinheld":
            raise StartError(
                "meinheld does not survive hostile requests, so it listens only on a unix socket, behind a proxy "
                "that parses strictly: --bind unix:PATH"
            )
        _require_free_port(host, port)
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    path = bind.removeprefix("unix:")
    if path == bind or not path:
        raise StartError("--bind takes unix:PATH; use --host and --port for a TCP address")
    _require_free_path(path)
    return bind


def _require_free_port(host: str, port: int) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                reason = f"port {port} is taken; stop what uses it or choose another: make serve PORT=8001 (or --port)"
            else:
                reason = f"cannot listen on {host}:{port} ({error.strerror})"
            raise StartError(reason) from error


def _require_free_path(path: str) -> None:
    if len(os.fsencode(path)) > limits.workers.SOCKET_PATH_BYTES:
        raise StartError(f"the path of a socket has at most {limits.workers.SOCKET_PATH_BYTES} bytes: {path}")
    if not Path(path).absolute().parent.is_dir():
        raise StartError(f"there is no directory for the socket {path}")
    if not Path(path).exists():
        return
    if not Path(path).is_socket():
        raise StartError(f"{path} exists and is not a socket")
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(path)
        except OSError:
            return  # the socket of a dead server; gunicorn replaces it
    raise StartError(f"a server is listening on {path} already")
