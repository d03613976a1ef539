"""Where to listen: checked before anything is started."""

import errno
import socket
from pathlib import Path

from sepu.server.errors import StartError
from sepu.server.gunicorn import Worker


def address(host: str, port: int, bind: str | None, worker: Worker) -> str:
    """The gunicorn bind of the settings.

    Raises:
        StartError: `bind` is no unix socket, or the worker needs one.
    """
    if bind is None:
        if worker == "meinheld":
            raise StartError(
                "meinheld does not survive hostile requests, so it listens only on a unix socket behind a proxy "
                "that parses strictly: --bind unix:PATH"
            )
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    path = bind.removeprefix("unix:")
    if path == bind or not path:
        raise StartError("--bind takes unix:PATH; a TCP address is given by --host and --port")
    if not Path(path).absolute().parent.is_dir():
        raise StartError(f"there is no directory for the socket {path}")
    return bind


def require_free(host: str, port: int) -> None:
    """Fails early and clearly where gunicorn would retry for seconds.

    Raises:
        StartError: the address is taken or not this machine's.
    """
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
