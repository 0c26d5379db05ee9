"""One gRPC call over a Unix socket: a message out, a message back, within a deadline.

With h2, which the HTTP server brings along; grpcio would be 10 MB more for this one call.
"""

import socket
import struct
import time
from pathlib import Path

import h2.config
import h2.connection
import h2.events
import h2.exceptions

from exporter.model import SourceError

LIMIT = 16 << 20


def call(path: Path, method: str, message: bytes, seconds: float) -> bytes:
    """The answer to `message`. Raises SourceError: refused, hanging, cut short, or an error of the service."""
    end = time.monotonic() + seconds
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
            line.settimeout(seconds)
            line.connect(str(path))
            return _exchange(line, method, message, end)
    except TimeoutError as error:
        raise SourceError("timeout", f"{path} does not answer") from error
    except OSError as error:
        raise SourceError("unreadable", f"{path}: {error.strerror or error}") from error
    except h2.exceptions.ProtocolError as error:
        raise SourceError("bad_answer", f"{path}: {type(error).__name__}") from error


def _exchange(line: socket.socket, method: str, message: bytes, end: float) -> bytes:
    connection = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True, header_encoding="utf-8"))
    connection.initiate_connection()
    stream = connection.get_next_available_stream_id()
    headers = [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", method),
        (":authority", "localhost"),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
    ]
    connection.send_headers(stream, headers)
    connection.send_data(stream, struct.pack(">BI", 0, len(message)) + message, end_stream=True)
    line.sendall(connection.data_to_send())
    body, status = b"", ""
    while True:
        line.settimeout(_left(end))
        data = line.recv(65536)
        if not data:
            raise SourceError("cut_short", f"{method}: the connection was closed")
        for event in connection.receive_data(data):
            if isinstance(event, h2.events.DataReceived):
                body += event.data
                connection.acknowledge_received_data(event.flow_controlled_length or 0, stream)
            elif isinstance(event, h2.events.ResponseReceived | h2.events.TrailersReceived):
                status = {str(name): str(value) for name, value in event.headers}.get("grpc-status", status)
            elif isinstance(event, h2.events.StreamEnded):
                return _message(body, status, method)
            elif isinstance(event, h2.events.StreamReset | h2.events.ConnectionTerminated):
                raise SourceError("reset", f"{method}: {type(event).__name__}")
        if len(body) > LIMIT:
            raise SourceError("bad_answer", f"{method}: more than {LIMIT >> 20} MiB")
        line.sendall(connection.data_to_send())


def _message(body: bytes, status: str, method: str) -> bytes:
    if status != "0":
        raise SourceError("refused", f"{method}: grpc-status {status or 'missing'}")
    if len(body) < 5 or body[0] or struct.unpack(">I", body[1:5])[0] != len(body) - 5:
        raise SourceError("bad_answer", f"{method}: no message of its length")
    return body[5:]


def _left(end: float) -> float:
    left = end - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left
