"""Which pods hold a GPU of this node: kubelet's pod-resources API, one call to a Unix socket.

The call is `v1.PodResourcesLister/List` with an empty message; of the answer the fields for names, device plugins and
dynamic allocation are read (https://kubernetes.io/docs/concepts/extend-kubernetes/compute-storage-net/device-plugins/).
"""

from collections.abc import Iterator
from pathlib import Path

from exporter.model import SourceError, Unavailable

SOCKET = Path("/var/lib/kubelet/pod-resources/kubelet.sock")
METHOD = "/v1.PodResourcesLister/List"
SECONDS = 1.0
GPU_NAMES = ("gpu", "nvidia.com/", "amd.com/")
Field = tuple[int, int | bytes]


class PodGpus:
    """Asks the kubelet at `socket`."""

    def __init__(self, socket: Path = SOCKET, seconds: float = SECONDS) -> None:
        self._socket = socket
        self._seconds = seconds

    def holders(self) -> tuple[str, ...]:
        """`namespace/pod` of each that holds one. Raises Unavailable without kubelet, SourceError without answer."""
        try:
            self._socket.stat()  # not exists(): from Python 3.14 on that takes a folder that may not be read for none
        except (FileNotFoundError, NotADirectoryError) as error:
            raise Unavailable("no kubelet here") from error
        except OSError as error:
            raise SourceError("unreadable", f"{self._socket}: {error.strerror}") from error
        from exporter.hardware.unary_grpc import call  # noqa: PLC0415 - only a node of Kubernetes pays for it

        answer = call(self._socket, METHOD, b"", self._seconds)
        try:
            return tuple(sorted(set(_holders(answer))))
        except (ValueError, IndexError, UnicodeDecodeError) as error:
            raise SourceError("bad_answer", f"{self._socket}: no answer of PodResourcesLister") from error


def _holders(answer: bytes) -> Iterator[str]:
    for pod in _messages(answer, 1):
        name, space = _text(pod, 1), _text(pod, 2)
        if any(_has_gpu(container) for container in _messages(pod, 3)):
            yield f"{space}/{name}"


def _has_gpu(container: bytes) -> bool:
    """Of a device plugin (field 2: resource name) or by dynamic allocation (field 5: claims, with their drivers)."""
    plugin = (_text(device, 1) for device in _messages(container, 2))
    claims = (_text(claim, 2) for dynamic in _messages(container, 5) for claim in _messages(dynamic, 4))
    return any(word in name for name in (*plugin, *claims) for word in GPU_NAMES)


def _messages(message: bytes, number: int) -> list[bytes]:
    return [value for found, value in _fields(message) if found == number and isinstance(value, bytes)]


def _text(message: bytes, number: int) -> str:
    return b"".join(_messages(message, number)[:1]).decode()


def _fields(message: bytes) -> Iterator[Field]:
    """Number and value of each field (https://protobuf.dev/programming-guides/encoding/). Raises ValueError."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        kind = key & 7
        if kind == 0:
            value, at = _varint(message, at)
            yield key >> 3, value
            continue
        size, at = _varint(message, at) if kind == 2 else ({1: 8, 5: 4}[kind] if kind in (1, 5) else -1, at)
        if size < 0 or at + size > len(message):
            raise ValueError("cut short")
        yield key >> 3, message[at : at + size]
        at += size


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if not byte & 0x80:
            return value, at
        if shift > 63:
            raise ValueError("no number")
