"""The site, in a browser."""

import json
import os
import subprocess
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Queue

import pytest
from tests.browser import Look, look
from tests.harness.processes import running
from tests.programs import installed, missing, program

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
MKDOCS = ROOT / "build" / "docs" / "bin" / "mkdocs"
# The page that answers each question, first or second in the search's results.
QUESTIONS = {
    "install": "python.html",
    "jupyter": "python.html",
    "oklch": "designers.html",
    "match CMYK": "designers.html",
    "all reds": "designers.html",
    "css color display-p3": "designers.html",
    "delta e": "explained.html",
    "pandas": "library.html",
    "idempotency key expire": "metering.html",
    "how long does a key replay": "metering.html",
    "409": "errors.html",
    "d50": "library.html",
    "conda": "python.html",
    "how to cite": "python.html",
    "tone marks": "searching.html",
    "power cut": "reliability.html",
    "latency": "performance.html",
    "gthread": "develop/workers.html",
    "publish to pypi": "develop/release.html",
    "undo an import": "billing.html",
    "how many colours in one request": "api.html",
    "what is left of my quota": "customers.html",
    "rate limit": "metering.html",
    "when does the month begin": "metering.html",
    "was I charged request id": "support.html",
    "missing values NaN": "library.html",
    "thread-safe GIL": "library.html",
    "licence attribution": "data.html",
    "how many cores": "capacity.html",
    "how many workers": "capacity.html",
    "requests per minute": "metering.html",
    "million pixels": "performance.html",
    "plot colors": "recipes/chart.html",
    "pgbouncer": "scaling.html",
    "managed postgres": "deploy.html",
    "GDPR": "accounts.html",
    "upgrade without downtime": "deploy.html",
    "kubernetes": "kubernetes.html",
    "refund units": "billing.html",
    "charged twice": "support.html",
    "suspend an account": "accounts.html",
    "how do I get a key": "get-a-key.html",
    "rotate a key": "get-a-key.html",
    "price": "metering.html",
    "retry after": "metering.html",
    "test account": "get-a-key.html",
    "show attribution": "use.html",
    "cache answers": "use.html",
    "sunset": "api-versions.html",
    "breaking change": "api-versions.html",
    "php": "integrate/clients.html",
    "postman": "integrate/index.html",
    "408": "errors.html",
    "when to retry": "metering.html",
}
SUPPORT = "help@colours.example"
MEASURING = """<!doctype html><body><script>
(async () => {
  const found = [];
  for (const page of %s) {
    const frame = document.createElement("iframe");
    frame.style.cssText = "border: 0; height: 800px; width: %dpx";
    frame.src = page;
    const loaded = new Promise(resolve => frame.onload = resolve);
    document.body.append(frame);
    await loaded;
    for (const element of frame.contentDocument.querySelectorAll("html, .md-content *")) {
      const scrolls = element.localName == "html" || /auto|hidden|scroll/.test(getComputedStyle(element).overflowX);
      if (scrolls && element.clientWidth && element.scrollWidth > element.clientWidth + 1) {
        const kind = element.closest(".console") ? "terminal" : element.localName;
        found.push([page, kind, element.textContent.trim().slice(0, 40)]);
      }
    }
    frame.remove();
  }
  fetch("report", {method: "POST", body: JSON.stringify(found)});
})();
</script>"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not MKDOCS.exists():
        missing("MkDocs is not installed: make docs")
    directory = tmp_path_factory.mktemp("site")
    subprocess.run(
        [MKDOCS, "build", "--quiet", "--site-dir", directory],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1", "SEPU_SUPPORT": SUPPORT},
        check=True,
        timeout=60,
    )
    return directory


def test_the_search_finds_what_readers_ask(site: Path) -> None:
    asked = [program("node", "nodejs"), str(Path(__file__).with_name("search.mjs")), str(site)]
    done = subprocess.run(asked, input=json.dumps([*QUESTIONS]), capture_output=True, text=True, check=True, timeout=60)
    found = dict(zip(QUESTIONS, json.loads(done.stdout), strict=True))
    assert {question: page for question, page in QUESTIONS.items() if page not in found[question][:2]} == {}


def test_customers_see_whom_to_ask(site: Path) -> None:
    for page in ("get-a-key", "errors"):
        assert f'<a href="mailto:{SUPPORT}">support</a>' in (site / f"{page}.html").read_text("utf-8")


def reported(site: Path, page: str, directory: Path) -> str:
    """What a page of the site posts to `report` in a browser."""
    browser = installed("google-chrome") or program("chromium", "chromium")
    reports: Queue[str] = Queue()

    class Handler(SimpleHTTPRequestHandler):
        def do_POST(self) -> None:
            reports.put(self.rfile.read(int(self.headers["Content-Length"])).decode())
            self.send_response(204)
            self.end_headers()

        def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002  # its name
            pass

    options = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", f"--user-data-dir={directory}"]
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(site))) as server:
        threading.Thread(target=server.serve_forever).start()
        try:
            with (
                (directory / "log").open("wb") as log,
                running([browser, *options, f"http://127.0.0.1:{server.server_port}/{page}"], stdout=log, stderr=log),
            ):
                return reports.get(timeout=90)
        finally:
            server.shutdown()


@pytest.mark.parametrize(
    ("width", "scrolling"), [(1280, {"terminal"}), (768, {"terminal", "code"}), (390, {"terminal", "code", "div", "p"})]
)
def test_no_page_is_wider_than_the_window(site: Path, tmp_path: Path, width: int, scrolling: set[str]) -> None:
    """At 1280 pixels only terminals scroll sideways; on a small screen code, tables and pictures may."""
    pages = sorted(page.relative_to(site).as_posix() for page in site.rglob("*.html") if page.name != "404.html")
    assert len(pages) > 30
    (site / "measuring.html").write_text(MEASURING % (json.dumps(pages), width))
    found = json.loads(reported(site, "measuring.html", tmp_path))
    (site / "measuring.html").unlink()
    assert [one for one in found if one[1] not in scrolling] == []


def test_axe_finds_no_fault(site: Path) -> None:
    """Pages with code, tables and pictures, light and dark; where a table or a picture scrolls, by keyboard too."""
    names = ("index.html", "api.html", "console.html")
    pages = [Look((site / name).as_uri(), 1280) for name in names]
    pages += [Look((site / name).as_uri(), 390, "dark") for name in names]
    seen = dict(zip(pages, look(pages), strict=True))
    assert {page: found.violations for page, found in seen.items() if found.violations} == {}
