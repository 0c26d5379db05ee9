"""HTTP: hypercorn with a plain ASGI function; routes are a table that app.py fills. Knows nothing of hardware."""

import asyncio
import errno
import logging
import socket
import ssl
import weakref
import zlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from hypercorn.asyncio import serve as hypercorn_serve
from hypercorn.config import Config as HypercornConfig
from hypercorn.config import Sockets
from hypercorn.typing import ASGIFramework

from exporter.model import UserError

MAX_CONNECTIONS = 512
"""More are closed at once: an open connection costs a descriptor, and the hardware needs some too."""
MAX_HEADER_BYTES = 16 * 1024
IDLE_SECONDS = 5
"""For a whole request to arrive, and between two requests."""
READ_SECONDS = 30
STOP_SECONDS = 2.0
GZIP_LEVEL = 1
"""Level 9 costs more time than the render, for a tenth less traffic."""
GZIP_MIN_BYTES = 1024
ALLOWED = frozenset({"GET", "HEAD"})
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Request:
    """What a route may look at."""

    path: str
    accept: str


@dataclass(frozen=True, slots=True)
class Response:
    """What a route answers."""

    body: bytes
    content_type: str = "text/plain; charset=utf-8"
    status: int = 200


REFUSALS: Mapping[int, Response] = {
    401: Response(b"a name and password are needed\n", status=401),
    429: Response(b"too many tries; wait a second\n", status=429),
}
EXTRA: Mapping[int, list[tuple[bytes, bytes]]] = {
    401: [(b"www-authenticate", b'Basic realm="eastwest", charset="UTF-8"')],
    405: [(b"allow", b"GET, HEAD")],
    429: [(b"retry-after", b"1")],
}
Route = Callable[[Request], Response]
Admit = Callable[[str, str], Awaitable[int]]
Scope = Mapping[str, Any]
Receive = Callable[[], Awaitable[Mapping[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]


class Listener(socket.socket):
    """A listening socket that closes at once what comes in while MAX_CONNECTIONS are open."""

    def __init__(self, family: int, limit: int = MAX_CONNECTIONS) -> None:
        super().__init__(family, socket.SOCK_STREAM)
        self._limit = limit
        self._open: weakref.WeakSet[socket.socket] = weakref.WeakSet()

    def accept(self) -> tuple[socket.socket, Any]:
        """As socket.accept(); BlockingIOError tells asyncio that nothing more is waiting."""
        while True:
            connection, peer = super().accept()
            if sum(known.fileno() >= 0 for known in self._open) < self._limit:
                self._open.add(connection)
                return connection, peer
            connection.close()


def listen(address: tuple[str, int]) -> Listener:
    """A socket bound to `address`. Raises UserError where that can't be had."""
    host, port = address
    try:
        family, _, _, _, resolved = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = Listener(family)
    except OSError as error:
        raise UserError(f"web.listen: {host}:{port}: {error.strerror}") from error
    except UnicodeError as error:  # what Python's IDNA codec makes of a host name with an empty or too long part
        raise UserError(f"web.listen: {host}:{port}: not a host name") from error
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(host != "::"))
        listener.bind(resolved)
        listener.listen(128)
        listener.setblocking(False)
    except OSError as error:
        listener.close()
        what = "already in use" if error.errno == errno.EADDRINUSE else error.strerror
        raise UserError(f"web.listen: {host}:{port}: {what}") from error
    return listener


class _Config(HypercornConfig):
    """Hypercorn's settings, on a socket of ours."""

    def __init__(self, listener: Listener, tls: ssl.SSLContext | None) -> None:
        super().__init__()
        self._listener = listener
        self._tls = tls
        self.ssl_handshake_timeout = IDLE_SECONDS
        self.alpn_protocols = ["http/1.1"]
        self.h11_max_incomplete_size = MAX_HEADER_BYTES
        self.keep_alive_timeout = IDLE_SECONDS
        self.read_timeout = READ_SECONDS
        self.graceful_timeout = STOP_SECONDS
        self.shutdown_timeout = STOP_SECONDS
        self.include_server_header = False
        self.errorlog = logging.getLogger("exporter.http")
        self.errorlog.setLevel(logging.WARNING)

    @property
    def ssl_enabled(self) -> bool:
        return self._tls is not None

    def create_ssl_context(self) -> ssl.SSLContext | None:
        return self._tls

    def create_sockets(self) -> Sockets:
        return Sockets([self._listener], [], []) if self._tls else Sockets([], [self._listener], [])


async def serve(
    routes: Mapping[str, Route],
    listener: Listener,
    stop: asyncio.Event,
    tls: ssl.SSLContext | None = None,
    admit: Admit | None = None,
) -> None:
    """Answer until `stop` is set; then open connections have STOP_SECONDS to end.

    `admit` says by Authorization header and address whether a request is answered: 200, 401 or 429.
    """
    config = _Config(listener, tls)
    server = asyncio.create_task(
        hypercorn_serve(application(routes, admit), config, shutdown_trigger=stop.wait, mode="asgi")
    )
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait({server, stopping}, return_when=asyncio.FIRST_COMPLETED)
    # From Python 3.12 on, hypercorn waits for the last connection without an end of its own.
    await asyncio.wait({server}, timeout=STOP_SECONDS)
    stopping.cancel()
    if server.done():
        server.result()
    else:
        server.cancel()
        await asyncio.wait({server}, timeout=STOP_SECONDS)


def application(routes: Mapping[str, Route], admit: Admit | None = None) -> ASGIFramework:
    """The ASGI function over a table of exact paths; see `serve` for `admit`."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _lifespan(receive, send)
        elif scope["type"] == "http":
            await _http(routes, scope, send, admit)

    return answer  # type: ignore[return-value]  # hypercorn types scopes as its own TypedDicts


async def _lifespan(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return


async def _http(routes: Mapping[str, Route], scope: Scope, send: Send, admit: Admit | None) -> None:
    headers = dict(scope["headers"])
    status = 200
    if admit is not None:
        address = (scope.get("client") or ("",))[0]
        status = await admit(headers.get(b"authorization", b"").decode("latin-1"), address)
    response = _response(routes, scope, headers) if status == 200 else REFUSALS[status]
    body = response.body
    sent = [
        (b"content-type", response.content_type.encode("ascii")),
        (b"x-content-type-options", b"nosniff"),
        (b"cache-control", b"no-store"),
    ]
    if len(body) >= GZIP_MIN_BYTES:
        sent.append((b"vary", b"accept-encoding"))
        if accepts_gzip(headers.get(b"accept-encoding", b"").decode("latin-1")):
            body = gzip(body)
            sent.append((b"content-encoding", b"gzip"))
    sent.append((b"content-length", str(len(body)).encode("ascii")))
    sent += EXTRA.get(response.status, [])
    await send({"type": "http.response.start", "status": response.status, "headers": sent})
    await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})


def _response(routes: Mapping[str, Route], scope: Scope, headers: Mapping[bytes, bytes]) -> Response:
    route = routes.get(scope["path"])
    if route is None:
        return Response(b"no such page\n", status=404)
    if scope["method"] not in ALLOWED:
        return Response(b"only GET and HEAD\n", status=405)
    try:
        return route(Request(scope["path"], headers.get(b"accept", b"").decode("latin-1")))
    except Exception:
        log.exception("path=%s: a bug, please report it", scope["path"])
        return Response(b"a bug of this page; the log says more\n", status=500)


def offers(header: str) -> Mapping[str, float]:
    """What an Accept or Accept-Encoding header asks for: name -> quality, 0 for what it refuses (RFC 9110, 12.4.2)."""
    found: dict[str, float] = {}
    for part in header.lower().split(","):
        name, *parameters = (piece.strip() for piece in part.split(";"))
        quality = next((p.removeprefix("q=") for p in parameters if p.startswith("q=")), "1")
        try:
            found[name] = max(found.get(name, 0.0), float(quality))
        except ValueError:
            continue
    return found


def accepts_gzip(header: str) -> bool:
    """Whether an Accept-Encoding header takes gzip."""
    asked = offers(header)
    return asked.get("gzip", asked.get("*", 0.0)) > 0


def gzip(body: bytes) -> bytes:
    """The body in gzip format, at a cheap level."""
    packer = zlib.compressobj(GZIP_LEVEL, zlib.DEFLATED, 31)
    return packer.compress(body) + packer.flush()
