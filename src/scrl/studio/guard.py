"""The guard before the server: who may ask, from which page, and how much at once."""

from __future__ import annotations

import hmac
import secrets
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LARGEST_JSON = 2_000_000
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
SAFE_HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


class RequestGuard:
    """Lets through only requests of our own page: address, origin, cookie and size are checked.

    The first address holds the token; it is exchanged for a cookie and vanishes from the address.
    """

    def __init__(self, app: ASGIApp, port: int, uploads: dict[str, int]) -> None:
        self.app, self.port = app, port
        self.token = secrets.token_urlsafe(32)
        self.cookie = f"scrl-studio-{port}"  # cookies do not tell ports apart
        self.hosts = {f"{name}:{port}" for name in ("127.0.0.1", "localhost")}
        self.uploads = uploads
        """The largest body in bytes of paths that take more than JSON."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            return  # no other protocol is spoken here
        answer = self._refusal(scope) or self._exchange(scope)
        if answer is not None:
            await answer(scope, receive, _with_headers(send))
            return
        limit = self.uploads.get(scope["path"], LARGEST_JSON)
        length = Headers(scope=scope).get("content-length", "0")
        if not length.isdecimal() or int(length) > limit:
            await _too_large(limit)(scope, receive, _with_headers(send))
            return
        await self.app(scope, _bounded(receive, limit), _with_headers(send))

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        hosts, origins = headers.getlist("host"), headers.getlist("origin")
        if len(hosts) != 1 or hosts[0].lower() not in self.hosts:
            return _refused("this server answers only at its own address", 421)
        if scope["method"] not in ("GET", "POST"):
            return _refused("only GET and POST are known here", 405)
        is_from_page = all(origin == f"http://{hosts[0].lower()}" for origin in origins)
        if not is_from_page or (scope["method"] == "POST" and not origins):
            return _refused("this request does not come from the studio's own page")
        if headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
            return _refused("this request does not come from the studio's own page")
        return None

    def _exchange(self, scope: Scope) -> Response | None:
        """A cookie for the token of the first address; a refusal without either."""
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        if scope["path"] == "/" and scope["method"] == "GET" and self._is_token(given):
            answer = RedirectResponse("/", 303)
            answer.set_cookie(self.cookie, self.token, httponly=True, samesite="strict", path="/")
            return answer
        if self._is_token(self._cookie(scope)):
            return None
        return _refused(
            "open the address that `scrl studio` printed: it holds the key to this page"
        )

    def _is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), self.token.encode())

    def _cookie(self, scope: Scope) -> str:
        try:
            jar = SimpleCookie(Headers(scope=scope).get("cookie", ""))
        except CookieError:
            return ""
        return jar[self.cookie].value if self.cookie in jar else ""


_TOO_LARGE = "Refused: a request has at most {:,} bytes here.\n"


def _refused(why: str, status: int = 403) -> Response:
    return PlainTextResponse(f"Refused: {why}.\n", status)


def _too_large(limit: int) -> Response:
    # The connection is closed, so that the rest of the body is not read.
    return PlainTextResponse(_TOO_LARGE.format(limit), 413, {"connection": "close"})


def _bounded(receive: Receive, limit: int) -> Receive:
    """Count the bytes of a body that does not tell its length."""
    seen = 0

    async def counted() -> Message:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > limit:
            raise HTTPException(413, _TOO_LARGE.format(limit), {"connection": "close"})
        return message

    return counted


def _with_headers(send: Send) -> Send:
    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in SAFE_HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return sent
