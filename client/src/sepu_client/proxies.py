"""Reads the proxy variables of the environment: which proxy leads to a host, and which hosts need none."""

import os
import re
from base64 import b64encode
from urllib.parse import unquote_to_bytes, urlsplit

from msgspec import Struct

from sepu_client.messages import Secret

HOST = re.compile(r"(?=.{1,253}$)[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?)*\.?")

# Lower case first, as in curl. HTTP_PROXY is left out: CGI sets it from a request's header.
_NAMES = {
    "https": ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"),
    "http": ("http_proxy", "all_proxy", "ALL_PROXY"),
}
_EXCEPTIONS = ("no_proxy", "NO_PROXY")


class Proxy(Struct, frozen=True):
    """Describes an HTTP proxy. `authorization` is the value of its header, or empty."""

    host: str
    port: int
    tls: bool
    authorization: str

    def __repr__(self) -> str:
        """Returns it without the password."""
        return f"Proxy({self.host!r}, {self.port})"


def proxy_for(scheme: str, host: str, port: int) -> Proxy | None:
    """Returns the proxy that the environment names for a host. Raises ValueError, which names the variable."""
    name, value = _first(_NAMES[scheme])
    if not value:
        return None
    proxy = read_proxy(name, value)
    exceptions, hosts = _first(_EXCEPTIONS)
    # All are read, so that a wrong one is always reported.
    found = [_matches(entry, host.rstrip("."), port, exceptions) for entry in re.split(r"[\s,]+", hosts) if entry]
    return None if any(found) else proxy


def _first(names: tuple[str, ...]) -> tuple[str, str]:
    for name in names:
        if value := os.environ.get(name, "").strip():
            return name, value
    return names[0], ""


def read_proxy(name: str, url: str) -> Proxy:
    """Reads a proxy's URL. Raises ValueError, which says `name` and not the URL: that may have a password."""
    url = url if "://" in url else f"http://{url}"
    try:
        parts = urlsplit(url)
        scheme, host, port = parts.scheme, parts.hostname or "", parts.port
        is_valid = (
            scheme in {"http", "https"}
            and port != 0
            and (HOST.fullmatch(host) or ":" in host)
            and parts.path in {"", "/"}
            and url.isascii()
            and url.isprintable()
            and not re.search(r"[\s?#]", url)
        )
    except (ValueError, TypeError):
        scheme, is_valid = "", False
    if scheme.startswith("socks"):
        raise ValueError(
            f"{name} is a SOCKS proxy, and this client uses only HTTP proxies: set it to one, or put the service's "
            "host into NO_PROXY"
        )
    if not is_valid:
        raise ValueError(
            f"{name} is not of the form http://HOST:PORT or http://USER:PASSWORD@HOST:PORT, with special characters "
            "of the password as %XX"
        ) from None
    userinfo = parts.netloc.rpartition("@")[0]
    user, _, password = userinfo.partition(":")
    credentials = unquote_to_bytes(user) + b":" + unquote_to_bytes(password)
    authorization = Secret(f"Basic {b64encode(credentials).decode()}" if userinfo else "")
    return Proxy(host, port or {"http": 80, "https": 443}[scheme], scheme == "https", authorization)


def _matches(entry: str, host: str, port: int, name: str) -> bool:
    """Returns whether a NO_PROXY entry is for the host: *, HOST, .SUFFIX, address or network, with a port or none."""
    if entry == "*":
        return True
    form = re.fullmatch(r"(?P<host>\[[^][]+\]|[^][:]+)(:(?P<port>[0-9]{1,5}))?|(?P<address>[0-9A-Fa-f:./]+)", entry)
    stated = (form["host"] or form["address"] if form else "").lower()
    suffix = stated.removeprefix(".")
    if HOST.fullmatch(suffix):
        is_meant = f".{host}".endswith(f".{suffix.rstrip('.')}")
    else:
        from ipaddress import ip_address, ip_network

        try:
            network = ip_network(stated.strip("[]"), strict=False)
        except ValueError:
            raise ValueError(
                f"{name} has {entry!r}, which is not *, HOST, .SUFFIX, an IP address or a network; each may have "
                ":PORT, and IPv6 is then in brackets"
            ) from None
        try:
            is_meant = ip_address(host) in network
        except ValueError:
            is_meant = False  # the host is a name
    return is_meant and (form is None or form["port"] is None or int(form["port"]) == port)
