"""Reads the address of the service, and chooses the way to it: directly, through a proxy, or by a Unix socket."""

import re
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

from sepu_client.proxies import Proxy, is_host, proxy_for, read_proxy

if TYPE_CHECKING:
    import ssl

PORTS = {"http": 80, "https": 443}
_PATH = re.compile(r"([A-Za-z0-9._~!$&'()*+,;=:@/-]|%[0-9A-Fa-f]{2})*")


class Route(Struct, frozen=True):
    """The way to a service. `tls` verifies it, or is None for plain HTTP."""

    base: str  # the URL that targets are appended to
    authority: str  # host and port, as the header Host has them
    host: str
    port: int
    unix: str = ""  # the path of a socket
    tls: "ssl.SSLContext | None" = None
    proxy: Proxy | None = None
    proxy_tls: "ssl.SSLContext | None" = None


def read_address(base_url: str) -> Route:
    """Returns the direct route to a service without TLS. Raises ValueError for an invalid URL."""
    if isinstance(base_url, str) and re.fullmatch(r"unix:/[^\0]+", base_url):
        return Route("http://localhost", "localhost", "localhost", 80, unix=base_url.removeprefix("unix:"))
    scheme, host, port, path = _parts(base_url)
    quoted = f"[{host}]" if ":" in host else host
    authority = quoted if port == PORTS[scheme] else f"{quoted}:{port}"
    return Route(f"{scheme}://{authority}{path}", authority, host, port)


def find_route(address: Route, context: "ssl.SSLContext | None", proxy: str | None) -> Route:
    """Returns the route to a service. Raises ValueError for a wrong setting of the caller or the environment.

    `context` replaces the system's certificates. `proxy` replaces the proxies of the environment; "" means none.
    """
    if address.unix:
        return address
    scheme = address.base.partition(":")[0]
    if proxy is None:
        through = proxy_for(scheme, address.host, address.port)
    else:
        through = read_proxy("proxy", proxy) if proxy else None
    if context is None and (scheme == "https" or (through and through.tls)):
        from sepu_client.tls import system_context  # slow to import, as is `ssl`

        context = system_context()
    tls = context if scheme == "https" else None
    proxy_tls = context if through and through.tls else None
    return replace(address, tls=tls, proxy=through, proxy_tls=proxy_tls)


def _parts(base_url: str) -> tuple[str, str, int, str]:
    try:
        url = urlsplit(base_url)
        host = url.hostname or ""
        port = url.port if url.port is not None else PORTS[url.scheme]
        path = url.path.rstrip("/")
        is_valid = (
            url.scheme in PORTS
            and base_url.isascii()  # the host is in lower case now, where the Kelvin sign is k
            and is_host(host)
            and ("[" in url.netloc) == (":" in host)  # not [v1.name], an address of the future
            and port > 0
            and _PATH.fullmatch(path)
            and base_url.isprintable()
            and not re.search(r"[\s@?#]", base_url)
            and not path.endswith("/v1")  # the calls add it
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        is_valid = False
    if not is_valid:
        if isinstance(base_url, str) and not base_url.isascii():
            raise ValueError(
                "the base URL is not ASCII: write the host in the form that DNS has, such as xn--strae-oqa.example, "
                "and other characters of a path as %XX"
            )
        raise ValueError(
            "the base URL is not of the form https://HOST, http://HOST or unix:/PATH: no user, no query, and no /v1"
        )
    return url.scheme, host, port, path
