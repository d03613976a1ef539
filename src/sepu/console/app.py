"""Makes the console's Falcon application: GET only, no cookies, no scripts, nothing from other sites."""

import logging
import re
import traceback
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager
from datetime import UTC, date, datetime
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import falcon
import jinja2
import psycopg
from falcon import Request, Response
from markupsafe import Markup

from sepu.admin.naming import AccountError
from sepu.console import pages
from sepu.console.pages import ServiceState
from sepu.errors import SepuError
from sepu.metering.key_format import KEY_START
from sepu.metering.meters import METERS

log = logging.getLogger("sepu.console")

# Opens the ledger for one page; whatever fails there is a SepuError.
Reading = Callable[[], AbstractContextManager[psycopg.Connection]]

_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; "
        "frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
_CELL = re.compile("<t[hd](?: [^>]*)?>(.*?)</t[hd]>", re.DOTALL)
_KEY_IN_ADDRESS = "This address has an API key, which others may see: find it with sepu key find, and revoke it."
_OTHER_SITE = "Another site may link to the console, but not load its pages."
_UNKNOWN_HOST = "The console does not answer to this name. If it should: sepu console --allowed-hosts NAME"
PAGES: dict[str, tuple[str, pages.Page]] = {
    "/accounts": ("accounts.html", pages.account_list),
    "/accounts/{account_id}": ("account.html", pages.account),
    "/accounts/{account_id}/charges": ("charges.html", pages.charge_list),
    "/accounts/{account_id}/history": ("history.html", pages.account_history),
    "/events": ("events.html", pages.event_list),
    "/history": ("history.html", pages.history),
    "/plans": ("plans.html", pages.plan_list),
    "/usage": ("usage.html", pages.usage),
}


class _Guard:
    """Refuses what no page needs, before anything is read."""

    def __init__(self, hosts: Collection[str]) -> None:
        self._hosts = {host.lower().strip("[]") for host in hosts}

    def process_request(self, req: Request, resp: Response) -> None:
        resp.set_headers(_HEADERS)
        if req.method != "GET":
            raise falcon.HTTPMethodNotAllowed(["GET"])
        # Another site may point its name at this machine (DNS rebinding), and could then read these pages.
        if _host(req) not in self._hosts:
            raise falcon.HTTPError(falcon.HTTP_421, description=_UNKNOWN_HOST)
        # It could not read the answers, but make this browser ask for slow pages. Another port is another site too.
        if not _is_own_or_followed(req):
            raise falcon.HTTPForbidden(description=_OTHER_SITE)
        # Addresses stay in histories and logs. The forms refuse to send a key.
        if re.search(KEY_START, unquote(f"{req.path}?{req.query_string}")):
            raise falcon.HTTPBadRequest(description=_KEY_IN_ADDRESS)
        if "\0" in req.path or "%00" in req.query_string:  # Postgres's text cannot have a NUL
            raise falcon.HTTPBadRequest(description="An address of the console cannot have a NUL.")


def _is_own_or_followed(req: Request) -> bool:
    """Returns whether the request is the console's own, was typed, or follows a link (Fetch Metadata).

    Older browsers and other programs do not say.
    """
    if req.get_header("Sec-Fetch-Site", default="none") in {"same-origin", "none"}:
        return True
    return (req.get_header("Sec-Fetch-Mode"), req.get_header("Sec-Fetch-Dest")) == ("navigate", "document")


def _host(req: Request) -> str | None:
    try:
        return req.host.lower().strip("[]")
    except ValueError:  # the port is not a number
        return None


class _Resource:
    def __init__(self, reading: Reading, at: str, template: jinja2.Template, page: pages.Page) -> None:
        self._at = at
        self._reading = reading
        self._template = template
        self._page = page

    def on_get(self, req: Request, resp: Response, **path: str) -> None:
        with self._reading() as connection:
            found = self._page(connection, lambda name: req.get_param(name) or None, **path)
        resp.content_type = falcon.MEDIA_HTML
        resp.text = self._template.render(found, at=self._at, section="/" + self._at.split("/")[1])


def create_console(
    reading: Reading, hosts: Collection[str], service_state: Callable[[], ServiceState] = ServiceState
) -> "falcon.App[Request, Response]":
    """Connects the pages to Falcon. Answers only requests to one of these hosts."""
    templates = _templates()
    app = falcon.App(middleware=[_Guard(hosts)])

    def on_error(req: Request, resp: Response, raised: Exception, params: dict[str, Any]) -> None:  # noqa: ARG001
        resp.status, message = _status_and_message(raised)
        if isinstance(raised, falcon.HTTPError):
            resp.set_headers(raised.headers or {})
        resp.content_type = falcon.MEDIA_HTML
        resp.text = templates.get_template("error.html").render(status=resp.status, message=message, at="", section="")

    app.add_error_handler(Exception, on_error)
    app.add_error_handler(falcon.HTTPError, on_error)
    app.add_static_route("/static", Path(__file__).with_name("static"))
    overview = ("overview.html", partial(pages.overview, service_state=service_state))
    every: dict[str, tuple[str, pages.Page]] = {"/": overview, **PAGES}
    for route, (name, page) in every.items():
        app.add_route(route, _Resource(reading, route, templates.get_template(name), page))
    return app


def _status_and_message(raised: Exception) -> tuple[str, str]:
    """Returns the status and the message for a person."""
    match raised:
        case falcon.HTTPError():
            return str(raised.status), raised.description or ""
        case AccountError():
            return falcon.HTTP_404, str(raised)
        case pages.AddressError():
            return falcon.HTTP_400, str(raised)
        case SepuError():
            return falcon.HTTP_503, str(raised)
    # No message: it could quote the input.
    frames = "".join(traceback.format_tb(raised.__traceback__))
    log.error("a page failed: %s\n%s", type(raised).__name__, frames)
    return falcon.HTTP_500, "The console's log says why."


def _templates() -> jinja2.Environment:
    found = jinja2.Environment(
        loader=jinja2.PackageLoader("sepu.console"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.globals["meters"] = METERS
    found.globals["no_key"] = Markup(f'pattern="(?!.*{KEY_START}).*" title="No API key: give one to sepu key find"')  # noqa: S704
    found.filters["number"] = lambda number: "unknown" if number is None else f"{number:,}"
    found.filters["time"] = _time
    found.filters["labelled"] = _labelled
    return found


def _labelled(table: str) -> Markup:
    """Labels each cell of a table with its column's name, which a narrow screen shows.

    `table` comes from our templates, which escape their values: each tag in it is theirs.
    """
    head, tag, body = str(table).partition("<tbody>")
    names = [re.sub("<[^>]*>", "", re.split("<span|</a>", name)[0]).strip() for name in _CELL.findall(head)]
    positions = count()

    def label(cell: re.Match[str]) -> str:
        return f'{cell[0]} data-label="{names[next(positions) % len(names)]}"'

    return Markup(head + tag + re.sub("<t[hd](?= |>)", label, body))  # noqa: S704  # see above


def _time(at: datetime | date) -> str:
    """Formats a time for a person, in UTC."""
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%SZ}" if isinstance(at, datetime) else at.isoformat()
