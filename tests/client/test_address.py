"""The route to the service: its address, proxies from the environment, and the system's certificates."""

import os
import ssl
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from sepu_client import Client, calls, proxies, tls
from sepu_client.address import Route, find_route, read_address
from sepu_client.protocol import Link
from sepu_client.proxies import Proxy

Set = Callable[..., None]
CONTEXT = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # reading the system's certificates takes 0.1 seconds
LONGEST = ".".join([*["a" * 63] * 3, "a" * 61])  # 253 characters


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> Set:
    """Sets variables, after removing those of the machine."""
    for name in (*proxies._NAMES["https"], *proxies._NAMES["http"], *proxies._EXCEPTIONS, "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)
    proxies._pass_over.cache_clear()

    def put(**values: str) -> None:
        for name, value in values.items():
            monkeypatch.setenv(name, value)

    return put


def route(base_url: str, **options: Any) -> Route:
    return find_route(read_address(base_url), options.pop("context", CONTEXT), options.pop("proxy", None))


@pytest.mark.parametrize(
    ("base_url", "base", "host", "port"),
    [
        ("http://localhost", "http://localhost", "localhost", 80),
        ("HTTP://Localhost:8000/", "http://localhost:8000", "localhost", 8000),
        ("https://colors.example:443/A%2fb/", "https://colors.example/A%2fb", "colors.example", 443),
        (f"https://{LONGEST}", f"https://{LONGEST}", LONGEST, 443),
        ("http://[2001:DB8::1]:81", "http://[2001:db8::1]:81", "2001:db8::1", 81),
        ("http://my_service.:80", "http://my_service.", "my_service.", 80),
        ("https://xn--strae-oqa.example", "https://xn--strae-oqa.example", "xn--strae-oqa.example", 443),
        ("https://127.0.0.1", "https://127.0.0.1", "127.0.0.1", 443),
        ("https://1.a", "https://1.a", "1.a", 443),
        ("https://a.0xg", "https://a.0xg", "a.0xg", 443),
        ("http://localhost:1", "http://localhost:1", "localhost", 1),
    ],
)
def test_an_address(base_url: str, base: str, host: str, port: int) -> None:
    found = route(base_url)
    assert (found.base, found.host, found.port, found.proxy) == (base, host, port, None)
    assert (found.tls is not None) == base.startswith("https:")
    request = Client(base_url, "a-key", ssl_context=CONTEXT)._requests.of(calls.usage(), 1)
    assert request.headers["Host"] == urlsplit(base).netloc
    sent = bytes(next(Link(found).exchange(request)))
    assert sent.startswith((b"GET /v1/usage HTTP/1.1\r\n", b"GET /A%2fb/v1/usage HTTP/1.1\r\n"))


def test_a_unix_socket_is_named_localhost_and_has_no_proxy(environment: Set) -> None:
    environment(http_proxy="http://proxy:3128", ALL_PROXY="http://proxy:3128")
    assert route("unix:/run/x") == Route("http://localhost", "localhost", "localhost", 80, unix="/run/x")


HTTPS = "https://colors.example"


@pytest.mark.parametrize(
    ("variables", "base_url", "proxy"),
    [
        ({"HTTPS_PROXY": "http://proxy:3128"}, HTTPS, Proxy("proxy", 3128, False, "")),
        *(
            ({first: "http://a", second: "http://b"}, base_url, Proxy("a", 80, False, ""))
            for base_url, own in ((HTTPS, ["https_proxy", "HTTPS_PROXY"]), ("http://localhost", ["http_proxy"]))
            for first, second in pairwise([*own, "all_proxy", "ALL_PROXY"])
        ),
        ({"ALL_PROXY": "proxy:3128"}, HTTPS, Proxy("proxy", 3128, False, "")),
        ({"all_proxy": "https://proxy/"}, HTTPS, Proxy("proxy", 443, True, "")),
        ({"http_proxy": "http://proxy"}, HTTPS, None),
        ({"HTTPS_PROXY": "http://[fe80::1%lo]:3128"}, HTTPS, Proxy("fe80::1%lo", 3128, False, "")),
        ({"http_proxy": "http://[::1]:1", "ALL_PROXY": "a"}, "http://localhost", Proxy("::1", 1, False, "")),
        *(({name: "a"}, "http://localhost", Proxy("a", 80, False, "")) for name in ("all_proxy", "ALL_PROXY")),
        ({"HTTP_PROXY": "http://proxy"}, "http://localhost", None),  # a request to a CGI program could set it
        ({"HTTPS_PROXY": "http://proxy"}, "http://localhost", None),
        ({"HTTPS_PROXY": " ", "ALL_PROXY": ""}, HTTPS, None),
        ({"HTTPS_PROXY": "http://user:p%23s%3As@proxy:1"}, HTTPS, Proxy("proxy", 1, False, "Basic dXNlcjpwI3M6cw==")),
        ({"HTTPS_PROXY": "http://us%40er@proxy:1"}, HTTPS, Proxy("proxy", 1, False, "Basic dXNAZXI6")),
    ],
)
def test_the_proxy_of_the_environment(
    environment: Set, variables: dict[str, str], base_url: str, proxy: Proxy | None
) -> None:
    environment(**variables)
    assert route(base_url).proxy == proxy
    assert route(base_url, proxy="").proxy is None
    assert "dXN" not in repr(route(base_url))
    own = route(base_url, proxy="http://own:8080").proxy
    assert own is not None
    assert own.host == "own"


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("socks5h://secret@proxy:1080", "HTTPS_PROXY is a SOCKS proxy, and this client uses only HTTP proxies"),
        *(
            (value, "HTTPS_PROXY is not of the form http://HOST:PORT")
            for value in (
                "htp://secret@proxy", "http://", "http://user:sec#ret@proxy", "http://user:sec/ret@proxy", "http://a b",
                "http://proxy:99999", "http://proxy:0", "http://proxy?secret", "http://[::1", "http://secrét@proxy",
            )
        ),
    ],
)  # fmt: skip
def test_a_proxy_that_cannot_be_used_is_refused_without_its_password(environment: Set, value: str, reason: str) -> None:
    environment(HTTPS_PROXY=value)
    with pytest.raises(ValueError, match=reason) as raised:
        route(HTTPS)
    assert "sec" not in str(raised.value)
    with pytest.raises(ValueError, match=reason.replace("HTTPS_PROXY", "proxy")):
        route(HTTPS, proxy=value)


@pytest.mark.parametrize(
    ("exceptions", "base_url", "is_direct"),
    [
        *((entry, "https://a.b.example:8443", True) for entry in (
            "*", "a.b.example", ".a.b.example", "b.example", ".b.example", "EXAMPLE", "a.b.example:8443",
            "localhost, b.example", "localhost b.example", "a.b.example.", "*.b.example", "*.EXAMPLE:8443",
            "*.local, 169.254/16, b.example",
        )),
        *((entry, "https://a.b.example:8443", False) for entry in (
            "", "c.example", "b.exampl", "a.b.example:443", "x.a.b.example", ".b", "*.b.example:443", "*.c.example",
            "10.0.0.0/8", "[::1]:8443",
        )),
        ("example", "https://badexample", False),
        *((entry, "https://10.1.2.3", True) for entry in (
            "10.1.2.3", "10.1.2.3:443", "10.0.0.0/8", "10.1.2.0/24", "10.9.9.9/8",
        )),
        *((entry, "https://a.b.example.:8443", True) for entry in ("a.b.example", "b.example.", ".example.:8443")),
        *((entry, "https://10.1.2.3", False) for entry in ("10.1.2.30", "10.1.2.3:80", "11.0.0.0/8", "1.2.3", ".3")),
        *((entry, "https://[2001:db8::1]", True) for entry in (
            "2001:db8::1", "[2001:db8::1]", "[2001:DB8:0::1]:443", "2001:db8::/32",
        )),
        *((entry, "https://[2001:db8::1]", False) for entry in ("2001:db8::2", "[2001:db8::1]:80", "::/64")),
    ],
)  # fmt: skip
def test_hosts_without_a_proxy(environment: Set, exceptions: str, base_url: str, is_direct: bool) -> None:
    """Such a host ignores even a proxy that cannot be used."""
    environment(HTTPS_PROXY="socks5://proxy" if is_direct else "http://proxy", NO_PROXY=exceptions)
    assert (route(base_url).proxy is None) == is_direct
    environment(HTTPS_PROXY="http://proxy", no_proxy="other.example")  # takes precedence over the upper-case one
    assert route(base_url).proxy is not None


@pytest.mark.parametrize(
    "entry",
    [
        "169.254/16", "10.*", "*.10.*", "<local>", "a;b", "a.example/path", "http://a.example", "straße.example", "a:b",
        "a:99999999", "[::1", "::1]", "[a]", "10.0.0.0/99", "1.2.3", "010.1.2.3", "a..b", "-", ":80", "*.", "**", "a*",
        "\x1b[2J", "\udcff", "a" * 5000, "*a.example", "http://user:secret@host",
    ],
)  # fmt: skip
def test_an_exception_of_another_form_is_passed_over(
    environment: Set, caplog: pytest.LogCaptureFixture, entry: str
) -> None:
    """And logged once, without a password."""
    name, shown = ("NO_PROXY", "host") if "@" in entry else ("no_proxy", entry[:100])
    environment(HTTPS_PROXY="http://proxy:3128", **{name: f"{entry},b.example"})
    for _ in range(2):
        assert route("https://10.1.2.3").proxy is not None
        assert route("https://a.example").proxy is not None
        assert route("https://b.example").proxy is None
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert record.getMessage().startswith(f"{name} has {shown!r}, which is passed over")
    assert "secret" not in record.getMessage()
    assert record.getMessage().isprintable()


@pytest.mark.parametrize(
    "host",
    [
        "straße.example", "bücher.example", "\u212a.example", "ａ.example", "a。example", "１.1.1.1",
        "127.1", "010.0.0.1", "0x7f.0.0.1", "0x7f.1", "2130706433", "0x7f000001", "1.2.3.4.5", "256.1.1.1", "1.2.3.4.",
        "a.1", "a.0x", "%61.example", "[v1.a]", "[::1%25lo]", "[::1%lo]", "[127.0.0.1]", "[a.example]", "a\\b", "a_..b",
        LONGEST + "a", "a" * 64, "[::1", "a_{}",
    ],
)  # fmt: skip
def test_a_host_that_two_standards_read_differently_is_refused(environment: Set, host: str) -> None:
    reason = "^the base URL is not ASCII: write the host" if not host.isascii() else "^the base URL is not of the form"
    with pytest.raises(ValueError, match=reason):
        route(f"https://{host}")
    if "[" not in host:
        environment(HTTPS_PROXY=f"http://{host}:3128")
        with pytest.raises(ValueError, match="^HTTPS_PROXY is not of the form"):
            route(HTTPS)


def test_a_certificate_file_that_cannot_be_read_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """OpenSSL ignores it."""
    monkeypatch.delenv("SSL_CERT_DIR", raising=False)
    (tmp_path / "empty").touch()
    for file, reason in ((tmp_path / "none", "No such file"), (tmp_path / "empty", "NO_CERTIFICATE")):
        monkeypatch.setenv("SSL_CERT_FILE", str(file))
        with pytest.raises(ValueError, match=f"^SSL_CERT_FILE is '{file}', from which.*: {reason}"):
            route(HTTPS, context=None)
        route("http://localhost", context=None)


def test_certificates_may_be_in_several_directories(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(ssl, "create_default_context", lambda: ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    for name in ("empty", "full"):
        (tmp_path / name).mkdir()
    (tmp_path / "full" / "0a1b2c3d.0").touch()
    for names in (["none", "full"], ["empty", "full"], ["full"]):
        monkeypatch.setenv("SSL_CERT_DIR", os.pathsep.join(str(tmp_path / name) for name in names))
        assert route(HTTPS, context=None).tls
    for names, reason in (
        (["empty"], "^Python finds no.* set SSL_CERT_FILE"),
        (["none", "nothing"], "^SSL_CERT_DIR is .* no directory"),
    ):
        monkeypatch.setenv("SSL_CERT_DIR", os.pathsep.join(str(tmp_path / name) for name in names))
        with pytest.raises(ValueError, match=reason):
            route(HTTPS, context=None)
    own = ssl.create_default_context()
    assert route(HTTPS, context=own).tls is own
    assert route("http://localhost", context=None).tls is None
    Client(HTTPS, "a-key", send=lambda request, network: network(request)).close()  # it needs none before a call


@pytest.mark.parametrize("rest", [":0", ":99999", "/v1", "/v1/", "/a/v1", "?q", "#f", "/%2g", "/%g2"])
def test_an_address_with_more_than_host_and_path_is_refused(rest: str) -> None:
    for base_url in (f"{HTTPS}{rest}", f"https://user@colors.example{rest}", "https://user@colors.example", "unix:a"):
        with pytest.raises(ValueError, match="^the base URL is not of the form"):
            route(base_url)


@pytest.mark.parametrize(("proxy", "has_tls"), [("https://proxy", True), ("http://proxy", False), ("", False)])
@pytest.mark.parametrize("base_url", [HTTPS, "http://localhost"])
def test_tls_is_spoken_to_a_proxy_that_has_it(
    monkeypatch: pytest.MonkeyPatch, base_url: str, proxy: str, has_tls: bool
) -> None:
    monkeypatch.setattr(tls, "system_context", lambda: CONTEXT)
    for context in (CONTEXT, None):
        found = route(base_url, context=context, proxy=proxy)
        assert found.proxy_tls is (CONTEXT if has_tls else None)
        hello = bytes(next(Link(found).open(), b""))  # names the host whose certificate is verified
        assert (b"proxy" in hello, b"colors" in hello) == (has_tls, base_url == HTTPS and not has_tls)
