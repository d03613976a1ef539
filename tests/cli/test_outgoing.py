"""The messages of commands about proxies and certificates set in the environment."""

import sys
from pathlib import Path

import pytest
from tests.cli.running import assert_failed, invoke

from sepu.errors import SepuError
from sepu.outgoing import open_client

NOBODY = "http://127.0.0.1:9/"
PASSWORD = "half#hidden"


@pytest.mark.parametrize(
    ("variable", "value", "reason"),
    [
        ("ALL_PROXY", f"socks://user:{PASSWORD}@127.0.0.1:1080", "ALL_PROXY is not like http://USER:PASSWORD@"),
        ("HTTPS_PROXY", f"http://user:{PASSWORD}@127.0.0.1:3128", "HTTPS_PROXY is not like .* # as %23"),
        ("https_proxy", "http://127.0.0.1:port", "https_proxy is not like "),
        ("HTTP_PROXY", "ftp://127.0.0.1", "HTTP_PROXY is not like "),
        ("HTTP_PROXY", "http://127.0.0.1\x7f", "HTTP_PROXY is not like "),
        ("SSL_CERT_FILE", "/nowhere/ca.pem", "SSL_CERT_FILE names a file that cannot be used: No such file"),
        ("SSL_CERT_FILE", __file__, "SSL_CERT_FILE names a file that cannot be used: .*no certificate"),
        ("SSL_CERT_DIR", "/nowhere:/nobody", "SSL_CERT_DIR names no directory"),
        ("SSLKEYLOGFILE", "/nowhere/keys", "SSLKEYLOGFILE names a file that cannot be used: No such file"),
    ],
)
def test_a_variable_that_is_not_valid_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, reason: str
) -> None:
    secret = tmp_path / "hooks.secret"
    secret.write_text("whsec_" + "A" * 44)
    monkeypatch.setenv(variable, value)
    with pytest.raises(SepuError, match=reason) as refused:
        open_client()
    trying = invoke("events", "try", "--url", NOBODY, "--secret-file", str(secret))
    serving = invoke("console", "--metrics-urls", NOBODY, "--database-url", "host=127.0.0.1 port=9")
    for done in (trying, serving):
        assert_failed(done, str(refused.value))
        assert "half" not in done.stderr


def test_socks_needs_a_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "socks5://127.0.0.1:1080")
    monkeypatch.setitem(sys.modules, "socksio", None)
    with pytest.raises(SepuError, match=r"^ALL_PROXY is a SOCKS proxy, which needs the package httpx2\[socks\]$"):
        open_client()


@pytest.mark.parametrize("hosts", ["[::1]", "::1,localhost", "10.0.0.0/8", "http://[::1", "a b, [x"])
def test_what_has_no_proxy_is_read(monkeypatch: pytest.MonkeyPatch, hosts: str) -> None:
    monkeypatch.setenv("NO_PROXY", hosts)
    assert set(open_client().timeout.as_dict().values()) == {None}  # its callers limit the whole request
