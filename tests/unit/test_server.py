"""The ASGI function by itself; the real server is in tests/e2e."""

import asyncio
import gzip
import socket
from collections.abc import Mapping
from typing import Any

import pytest

from exporter.model import UserError
from exporter.server import Listener, Request, Response, accepts_gzip, application, listen, offers

LONG = b"eastwest_port_up 1\n" * 200


def broken(_request: Request) -> Response:
    raise ZeroDivisionError("a bug")


ROUTES = {
    "/": lambda request: Response(f"accept {request.accept}".encode()),
    "/long": lambda _request: Response(LONG),
    "/broken": broken,
}


def ask(path: str, method: str = "GET", **headers: str) -> tuple[int, Mapping[str, str], bytes]:
    """Status, headers and body of one request."""
    sent: list[dict[str, Any]] = []

    async def receive() -> Mapping[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": "http", "path": path, "method": method, "headers": raw}
    asyncio.run(application(ROUTES)(scope, receive, send))  # type: ignore[arg-type]  # a plain dict is a scope
    start, body = sent
    return start["status"], {k.decode(): v.decode() for k, v in start["headers"]}, body["body"]


def test_a_page_with_its_length() -> None:
    status, headers, body = ask("/", accept="text/html")
    assert (status, body) == (200, b"accept text/html")
    assert headers["content-length"] == str(len(body))
    assert headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    ("path", "method", "status"),
    [
        ("/nowhere", "GET", 404),
        ("/nowhere", "POST", 404),
        ("/", "POST", 405),
        ("/", "DELETE", 405),
        ("/broken", "GET", 500),
        ("//", "GET", 404),
        ("/long/", "GET", 404),
    ],
)
def test_what_is_not_a_page(path: str, method: str, status: int) -> None:
    answered, headers, body = ask(path, method)
    assert answered == status
    assert b"Traceback" not in body
    assert ("allow" in headers) is (status == 405)


def test_head_is_get_without_the_body() -> None:
    (got, got_headers, body), (headed, head_headers, nothing) = ask("/long"), ask("/long", "HEAD")
    assert (got, dict(got_headers)) == (headed, dict(head_headers))
    assert (len(body), nothing) == (len(LONG), b"")


def test_long_answers_are_packed_for_those_who_ask() -> None:
    _, headers, body = ask("/long", accept_encoding="gzip, deflate")
    assert headers["content-encoding"] == "gzip"
    assert headers["vary"] == "accept-encoding"
    assert gzip.decompress(body) == LONG
    assert len(body) < len(LONG) // 4
    _, plain, _ = ask("/", accept_encoding="gzip")
    assert "content-encoding" not in plain


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("gzip", True),
        ("deflate, GZIP;q=0.5", True),
        ("*", True),
        ("gzip;q=0", False),
        ("gzip;q=0.000", False),
        ("*;q=0", False),
        ("gzip;q=0, *", False),
        ("identity", False),
        ("", False),
        ("gzip;q=nonsense", False),
    ],
)
def test_gzip_negotiation(header: str, expected: bool) -> None:
    assert accepts_gzip(header) is expected


def test_offers_take_the_best_of_several_versions() -> None:
    asked = offers(
        "application/openmetrics-text;version=1.0.0;q=0.8,application/openmetrics-text;version=0.0.1;q=0.75,*/*;q=0.1"
    )
    assert asked == {"application/openmetrics-text": 0.8, "*/*": 0.1}


def test_connections_past_the_limit_are_closed_at_once() -> None:
    with Listener(socket.AF_INET, limit=2) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(10)
        listener.setblocking(False)
        clients = [socket.create_connection(listener.getsockname(), timeout=5) for _ in range(4)]
        kept = [listener.accept()[0] for _ in range(2)]
        with pytest.raises(BlockingIOError):
            listener.accept()
        assert [client.recv(1) for client in clients[2:]] == [b"", b""]
        kept[0].close()
        clients.append(socket.create_connection(listener.getsockname(), timeout=5))
        kept.append(listener.accept()[0])
        for connection in (*clients, *kept):
            connection.close()


def test_an_address_that_is_taken_or_unknown_is_a_users_mistake() -> None:
    with listen(("127.0.0.1", 0)) as taken, pytest.raises(UserError, match="already in use"):
        listen(taken.getsockname())
    with pytest.raises(UserError, match=r"web\.listen: no\.such\.invalid:1"):
        listen(("no.such.invalid", 1))


@pytest.mark.parametrize("host", [".foo", "a..b", "a" * 64, ".", "a" * 300])
def test_what_is_no_host_name_is_the_users_mistake(host: str) -> None:
    with pytest.raises(UserError, match=r"^web\.listen: "):
        listen((host, 1))
