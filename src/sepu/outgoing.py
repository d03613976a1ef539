"""Opens clients for requests to other systems, with the environment's proxies and certificates."""

import os
import ssl
from typing import Any
from urllib.request import getproxies

import httpx2

from sepu.errors import SepuError

_SCHEMES = ("http", "https", "all")


def open_client(**settings: Any) -> httpx2.AsyncClient:  # noqa: ANN401
    """Opens a client without time limits: the caller limits the whole request.

    Raises:
        SepuError: an environment variable is not valid; the message names it, and never has its value.
    """
    folders = os.environ.get("SSL_CERT_DIR", "")
    if folders and not any(map(os.path.isdir, folders.split(os.pathsep))):
        raise SepuError("SSL_CERT_DIR names no directory")  # OpenSSL would trust nobody, and not say why
    try:
        return httpx2.AsyncClient(timeout=None, **settings)
    except (httpx2.InvalidURL, ValueError, ImportError):
        raise SepuError(_wrong_proxy()) from None
    except OSError as error:
        name = "SSL_CERT_FILE" if error.filename is None else "SSLKEYLOGFILE"
        raise SepuError(f"{name} names a file that cannot be used: {error.strerror or error}") from None


def _wrong_proxy() -> str:
    """Says which of the proxies that httpx2 reads is not valid."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # otherwise each transport would read the certificates
    for scheme in _SCHEMES:
        name = next((name for name in (f"{scheme}_proxy", f"{scheme.upper()}_PROXY") if os.environ.get(name)), scheme)
        url = getproxies().get(scheme, "")
        try:
            httpx2.AsyncHTTPTransport(context, proxy=(url if "://" in url else f"http://{url}") if url else None)
        except ImportError:
            return f"{name} is a SOCKS proxy, which needs the package httpx2[socks]"
        except (httpx2.InvalidURL, ValueError):
            return (
                f"{name} is not like http://USER:PASSWORD@proxy.example:3128 or socks5://proxy.example:1080; "
                "a password has # as %23, / as %2F, : as %3A and @ as %40"
            )
    return "a proxy of the environment is not valid"
