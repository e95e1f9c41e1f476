"""Access control for the page's server: host, origin, token and size of requests, and security headers (CSP).

Three checks, each against a different attacker. The Host header must name this server, which stops DNS rebinding
(another name made to resolve to this address). The Origin header must be the page's own, which stops other web pages
from sending requests. Every API call must carry the token from the link, which stops other users of the machine.
"""

from __future__ import annotations

import hmac
from collections.abc import Collection

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

TOKEN_HEADER = "x-phsafe-token"  # noqa: S105  (a header name, not a secret)
#: The largest request body in bytes: room for twenty scenarios.
MAX_BODY = 2_000_000
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "font-src 'self'; form-action 'none'; frame-ancestors 'none'; base-uri 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


class Guard:
    """Middleware that checks host, origin, token and size, and adds security headers to every response."""

    def __init__(self, app: ASGIApp, token: str, hosts: Collection[str]) -> None:
        self._app = app
        self._token = token.encode()
        self._hosts = {host.lower() for host in hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a refused request with an error; pass any other on to the application."""
        if scope["type"] != "http":
            return
        refusal = self._refusal(Headers(scope=scope), scope["path"])

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        if refusal is not None:
            status, why = refusal
            await JSONResponse({"error": why}, status)(scope, receive, send_with_headers)
            return
        await self._app(scope, _limited(receive), send_with_headers)

    def _refusal(self, headers: Headers, path: str) -> tuple[int, str] | None:
        if headers.get("host", "").lower() not in self._hosts:
            return 421, "this server does not answer to that host name"
        origin = headers.get("origin")
        if origin is not None and origin.lower() not in {f"http://{host}" for host in self._hosts}:
            return 403, "requests from other web pages are refused"
        if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            return 403, "requests from other web pages are refused"
        if path.startswith("/api/") and not hmac.compare_digest(headers.get(TOKEN_HEADER, "").encode(), self._token):
            return 401, "the link's token is missing or wrong; open the link that phsafe explore printed"
        length = headers.get("content-length", "0")
        if not length.isdigit() or int(length) > MAX_BODY:
            return 413, f"expected a request of at most {MAX_BODY} bytes, got a larger one"
        return None


def _limited(receive: Receive) -> Receive:
    """Stop reading once a body exceeds the limit, regardless of its Content-Length."""
    read = 0

    async def limited() -> Message:
        nonlocal read
        message = await receive()
        read += len(message.get("body", b""))
        if read > MAX_BODY:
            return {"type": "http.disconnect"}
        return message

    return limited
