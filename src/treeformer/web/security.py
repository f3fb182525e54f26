"""Who may ask, and for which files: token, cookie, Host, Origin, size of a request, and paths inside a root.

The server listens on 127.0.0.1 only. Other web pages in the same browser, and other users of the same computer, can
still send requests to it. `Guard` therefore refuses every request that does not carry the cookie, and the cookie is
given only in exchange for a random token, which is printed on the terminal. Cookies are shared by all ports of a host,
so requests from pages of another port are refused by their Origin.
"""

from __future__ import annotations

import json
import secrets
from http.cookies import CookieError, SimpleCookie
from pathlib import Path, PurePosixPath, PureWindowsPath
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from treeformer.web.errors import RequestError

MAX_BODY_BYTES = 64 * 1024 * 1024
LONGEST_NAME = 255  # bytes, on all common file systems
SAFE_METHODS = frozenset({"GET", "HEAD"})
METHODS = SAFE_METHODS | {"PUT", "POST", "DELETE"}
CONTENT_POLICY = (
    "default-src 'self'; img-src 'self' blob: data:; style-src 'self' 'unsafe-inline'; worker-src 'self' blob:; "
    "object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": CONTENT_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
# A link from another site: a redirect would not carry the Strict cookie, a page that goes on by itself does.
GO_ON = '<!doctype html><meta http-equiv="refresh" content="0; url=/"><title>treeformer</title><a href="/">continue</a>'


class BodyTooLargeError(Exception):
    """The body of a request is longer than the limit."""


class Guard:
    """ASGI middleware that passes on only requests of the page that was opened with the token.

    Attributes:
        cookie_name: name of the cookie; it contains the port, because all ports of a host share their cookies.
        cookie_value: secret of this run of the server.
    """

    def __init__(self, app: ASGIApp, *, token: str, port: int, max_body_bytes: int = MAX_BODY_BYTES) -> None:
        self.app, self.token, self.max_body_bytes = app, token, max_body_bytes
        self.hosts = {f"127.0.0.1:{port}", f"localhost:{port}"}
        self.cookie_name, self.cookie_value = f"treeformer-{port}", secrets.token_urlsafe(32)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it on."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        try:
            answer = self._checked(scope)
        except RequestError as error:
            answer = error_response(error)
        started = False

        async def send_with_headers(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        if answer is not None:
            await answer(scope, receive, send_with_headers)
            return
        try:
            await self.app(scope, self._limited(receive), send_with_headers)
        except BodyTooLargeError:
            if started:
                raise
            await error_response(self._too_large())(scope, receive, send_with_headers)

    def _checked(self, scope: Scope) -> Response | None:
        """Return None if the request may pass, or the answer to the token. Raise RequestError otherwise."""
        headers = Headers(scope=scope)
        hosts = headers.getlist("host")
        if len(hosts) != 1 or hosts[0].lower() not in self.hosts:
            raise RequestError("The Host of the request is not this server.", 403)
        method = scope["method"]
        if method not in METHODS:
            raise RequestError("This method is not allowed.", 405)
        origins = headers.getlist("origin")
        if (origins or method not in SAFE_METHODS) and origins != [f"http://{hosts[0].lower()}"]:
            raise RequestError("The request comes from another web page.", 403)
        site = headers.get("sec-fetch-site", "none")
        if scope["path"] == "/" and method in SAFE_METHODS:
            try:
                fields = parse_qs(scope["query_string"].decode("latin-1"), max_num_fields=8)
            except ValueError:
                raise RequestError("The address is invalid.", 400) from None
            if "token" in fields:
                return self._exchange(fields["token"], site)
        elif site not in ("same-origin", "none"):
            raise RequestError("The request comes from another web page.", 403)
        if not self._has_cookie(headers):
            raise RequestError("Open the address that `treeformer edit` printed: the token is missing.", 403)
        length = headers.get("content-length", "0")
        if not (length.isascii() and length.isdigit()):
            raise RequestError("The Content-Length is invalid.", 400)
        if len(length) > 18 or int(length) > self.max_body_bytes:
            raise self._too_large()
        return None

    def _exchange(self, tokens: list[str], site: str) -> Response:
        if len(tokens) != 1 or not secrets.compare_digest(tokens[0].encode(), self.token.encode()):
            raise RequestError("The token is wrong: open the address that `treeformer edit` printed.", 403)
        answer: Response = RedirectResponse("/", 303) if site in ("same-origin", "none") else HTMLResponse(GO_ON)
        answer.set_cookie(self.cookie_name, self.cookie_value, path="/", httponly=True, samesite="strict")
        return answer

    def _has_cookie(self, headers: Headers) -> bool:
        values = []
        for header in headers.getlist("cookie"):
            try:
                morsel = SimpleCookie(header).get(self.cookie_name)
            except CookieError:
                continue
            values += [morsel.value] if morsel is not None else []
        return any(secrets.compare_digest(value.encode(), self.cookie_value.encode()) for value in values)

    def _limited(self, receive: Receive) -> Receive:
        received = 0

        async def limited() -> Message:
            nonlocal received
            message = await receive()
            if message["type"] == "http.request":
                received += len(message.get("body", b""))
                if received > self.max_body_bytes:
                    raise BodyTooLargeError
            return message

        return limited

    def _too_large(self) -> RequestError:
        return RequestError(f"A request may have at most {self.max_body_bytes / 2**20:g} MB.", 413)


def error_response(error: RequestError) -> Response:
    """Return the answer of a refused request: one sentence as JSON."""
    return json_response({"error": str(error), **error.details}, error.status)


def json_response(value: object, status: int = 200) -> Response:
    """Return a value as JSON in ASCII, so that any text can be sent, even file names that are not Unicode."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return Response(text, status, media_type="application/json")


def resolve_inside(root: Path, relative: str) -> Path:
    """Return the path of a file below a resolved root, which need not exist.

    Refuse paths that are empty, absolute, not normal (`..`, `.`, `//`) or not valid as file names, and those that lead
    out of the root, also through a symbolic link.
    """
    parts = relative.split("/")
    if (
        "\0" in relative
        or any(len(part.encode("utf-8", "surrogatepass")) > LONGEST_NAME for part in parts)
        or any("\ud800" <= letter <= "\udfff" for letter in relative)
        or any(part in ("", ".", "..") for part in parts)
        or PurePosixPath(relative).is_absolute()
        or PureWindowsPath(parts[0]).drive
        or "\\" in relative
    ):
        raise RequestError("This is not the path of a file in the folder.", 400)
    path = root.joinpath(*parts)
    check_inside(root, path)
    return path


def check_inside(root: Path, path: Path) -> None:
    """Check that a path lies below a root after all symbolic links are followed."""
    try:
        resolved = path.resolve()
    except (OSError, ValueError, RuntimeError):  # a name that is too long, or a loop of links
        raise RequestError("This is not the path of a file in the folder.", 400) from None
    if not resolved.is_relative_to(root):
        raise RequestError("The path leads out of the folder.", 403)
