"""Reads the proxy variables of the environment."""

import os
import re
import socket
from base64 import b64encode
from functools import cache
from urllib.parse import unquote_to_bytes, urlsplit

from msgspec import Struct

from sepu_client.messages import Secret

_NAME = re.compile(r"(?=.{1,253}$)[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?)*\.?")

# Lower case first, as in curl. HTTP_PROXY is left out: CGI sets it from a request's header.
_NAMES = {
    "https": ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"),
    "http": ("http_proxy", "all_proxy", "ALL_PROXY"),
}
_EXCEPTIONS = ("no_proxy", "NO_PROXY")


class Proxy(Struct, frozen=True):
    """An HTTP proxy. `authorization` is the value of its header, or empty."""

    host: str
    port: int
    tls: bool
    authorization: str

    def __repr__(self) -> str:
        """Returns the address without the password."""
        return f"Proxy({self.host!r}, {self.port})"


def proxy_for(scheme: str, host: str, port: int) -> Proxy | None:
    """Returns the proxy that the environment sets for a host. Raises ValueError, which names the variable."""
    name, value = _first(_NAMES[scheme])
    return read_proxy(name, value) if value and not _is_exception(host.rstrip("."), port) else None


def _is_exception(host: str, port: int) -> bool:
    name, hosts = _first(_EXCEPTIONS)
    # All are read, so that each wrong one is reported.
    are_exceptions = [_matches(entry, host, port, name) for entry in re.split(r"[\s,]+", hosts) if entry]
    return any(are_exceptions)


def _first(names: tuple[str, ...]) -> tuple[str, Secret]:
    for name in names:
        if value := Secret(os.environ.get(name, "").strip()):
            return name, value
    return names[0], Secret()


def is_host(host: str) -> bool:
    """Returns whether all standards read the host alike: an ASCII name, or an IP address in its common form.

    IDNA 2003 and 2008 read some other names as different hosts. 010.0.0.1, 127.1 and 0x7f.1 are addresses to some
    resolvers and browsers, and not the same ones.
    """
    if _is_name(host):
        return True
    try:
        socket.inet_pton(socket.AF_INET6 if ":" in host else socket.AF_INET, host)
    except (OSError, ValueError):
        return False
    return True


def _is_name(host: str) -> bool:
    if not _NAME.fullmatch(host):
        return False
    last = host.rstrip(".").rpartition(".")[2]
    is_number = last.isdigit() or (last.startswith("0x") and not last[2:].strip("0123456789abcdef"))
    return not is_number


def read_proxy(name: str, url: str) -> Proxy:
    """Reads a proxy's URL. Raises ValueError with `name` but not the URL, which may contain a password."""
    read = _read(url)
    if isinstance(read, Proxy):
        return read
    raise ValueError(f"{name} {read}")


def _read(url: str) -> Proxy | str:
    """Returns the proxy, or what is wrong: it must not raise, because its variables show the password."""
    url = url if "://" in url else f"http://{url}"
    try:
        parts = urlsplit(url)
        scheme, host, port = parts.scheme, parts.hostname or "", parts.port
        is_valid = (
            scheme in {"http", "https"}
            and port != 0
            and (is_host(host) or ":" in host)
            and parts.path in {"", "/"}
            and url.isascii()
            and url.isprintable()
            and not re.search(r"[\s?#]", url)
        )
    except ValueError:
        scheme, is_valid = "", False
    if scheme.startswith("socks"):
        return (
            "is a SOCKS proxy, and this client uses only HTTP proxies: set it to one, or put the service's host into "
            "NO_PROXY"
        )
    if not is_valid:
        return (
            "is not of the form http://HOST:PORT or http://USER:PASSWORD@HOST:PORT, with special characters of the "
            "password as %XX"
        )
    userinfo = parts.netloc.rpartition("@")[0]
    user, _, password = userinfo.partition(":")
    credentials = unquote_to_bytes(user) + b":" + unquote_to_bytes(password)
    authorization = Secret(f"Basic {b64encode(credentials).decode()}" if userinfo else "")
    return Proxy(host, port or {"http": 80, "https": 443}[scheme], scheme == "https", authorization)


def _matches(entry: str, host: str, port: int, name: str) -> bool:
    """Returns whether a NO_PROXY entry is for the host: *, HOST, .SUFFIX, address or network, with a port or none.

    *.SUFFIX is .SUFFIX, as in Go. An entry of another form is for no host, as in curl.
    """
    if entry == "*":
        return True
    form = re.fullmatch(
        r"(?P<host>\[[^][]+\]|[^][:]+)(:(?P<port>[0-9]{1,5}))?|(?P<address>[0-9A-Fa-f:./]+)",
        entry.removeprefix("*") if entry.startswith("*.") else entry,
    )
    stated = (form["host"] or form["address"] if form else "").lower()
    suffix = stated.removeprefix(".")
    if _is_name(suffix):
        is_meant = f".{host}".endswith(f".{suffix.rstrip('.')}")
    else:
        from ipaddress import ip_address, ip_network

        try:
            network = ip_network(stated.strip("[]"), strict=False)
        except ValueError:
            _pass_over(name, entry.rpartition("@")[2][:100])
            return False
        try:
            is_meant = ip_address(host) in network
        except ValueError:
            is_meant = False  # the host is a name
    return is_meant and (form is None or form["port"] is None or int(form["port"]) == port)


@cache
def _pass_over(name: str, entry: str) -> None:
    """Logs once that an entry was ignored. The proxy may get requests that it should not."""
    import logging  # slow to import, and seldom needed

    logging.getLogger("sepu_client").warning(
        "%s has %r, which is passed over: it is not *, HOST, .SUFFIX, *.SUFFIX, an IP address or a network "
        "(each may have :PORT, and IPv6 is then in brackets)",
        name,
        entry,
    )
