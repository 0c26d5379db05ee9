"""NCCL and CUDA's driver by ctypes: just the calls of a probe, in a rank's process alone.

No binding is needed: the calls are few and stable since NCCL 2.14, and any libnccl from there on serves: the one that
the node's jobs use, or the one of the wheels nvidia-nccl-cu12 and nvidia-nccl-cu13.
"""

import ctypes as c
import importlib.util
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from exporter.probes.protocol import Failed, Refused

SUCCESS, IN_PROGRESS, REMOTE = 0, 7, 6
OLDEST = 21400
"""NCCL's version code of 2.14, the first with communicators that do not block."""
NOT_READY = 600
FLOAT32, SUM = 7, 0
UNIQUE_ID_BYTES = 128
REASONS = {1: "cuda_error", 2: "system_error", 3: "internal_error", 4: "invalid", 5: "invalid", 6: "remote_error"}
CUDA_REASONS = {
    2: ("gpu_memory", "not enough memory on the GPU"),
    100: ("no_gpu", "CUDA finds no GPU"),
    101: ("no_gpu", "CUDA finds no GPU of that number"),
    803: ("driver_mismatch", "the driver's library and its kernel module are of different versions"),
    804: ("driver_too_old", "the driver is too old for this CUDA library"),
}
POLL_SECONDS = 0.0003


class UniqueId(c.Structure):
    """ncclUniqueId: handed over by value."""

    _fields_ = [("internal", c.c_byte * UNIQUE_ID_BYTES)]


class Config(c.Structure):
    """ncclConfig_t, cut after `blocking`: with the version word of 2.14 every later NCCL takes the rest as unset."""

    _fields_ = [("size", c.c_size_t), ("magic", c.c_uint), ("version", c.c_uint), ("blocking", c.c_int)]


def load_cuda() -> c.CDLL:
    """The driver's library. Raises Refused."""
    try:
        library = c.CDLL("libcuda.so.1", mode=c.RTLD_GLOBAL)
    except OSError as error:
        raise Refused("no_cuda", f"no NVIDIA driver here: {error}") from error
    library.cuMemAlloc_v2.argtypes = [c.POINTER(c.c_uint64), c.c_size_t]
    library.cuMemsetD8Async.argtypes = [c.c_uint64, c.c_ubyte, c.c_size_t, c.c_void_p]
    library.cuEventRecord.argtypes = [c.c_void_p, c.c_void_p]
    library.cuEventQuery.argtypes = [c.c_void_p]
    return library


def load_nccl() -> c.CDLL:
    """The first of the system's libnccl and the wheel's that is new enough. Raises Refused.

    Not with RTLD_GLOBAL: one that is too old stays loaded, and the next would find the old one's functions as its own.
    """
    missing, old = [], []
    for path in ["libnccl.so.2", *_wheel()]:
        try:
            library = c.CDLL(path)
        except OSError as error:
            missing.append(str(error))
            continue
        code = version_code(library)
        if code >= OLDEST:
            return _typed(library)
        old.append(f"{path} is NCCL {version(code)}")
    wanted = f"{version(OLDEST)[:4]} or later, from the system or eastwest-exporter[nccl-cu12|nccl-cu13]"
    if old:
        raise Refused("nccl_too_old", f"{', '.join(old)}: too old, {wanted} is needed")
    raise Refused("no_nccl", f"no NCCL here: {missing[-1]} ({wanted})")


def _wheel() -> list[str]:
    """Where the wheels nvidia-nccl-cu12 and -cu13 put it: both into nvidia/nccl/lib."""
    try:
        found = importlib.util.find_spec("nvidia.nccl")
    except (ImportError, ValueError):
        return []
    folders = list(found.submodule_search_locations or []) if found else []
    return [str(Path(folder) / "lib" / "libnccl.so.2") for folder in folders]


def _typed(library: c.CDLL) -> c.CDLL:
    library.ncclGetErrorString.restype = c.c_char_p
    pointer, size = c.c_void_p, c.c_size_t
    library.ncclCommInitRankConfig.argtypes = [c.POINTER(pointer), c.c_int, UniqueId, c.c_int, pointer]
    library.ncclCommGetAsyncError.argtypes = [pointer, c.POINTER(c.c_int)]
    library.ncclAllReduce.argtypes = [pointer, pointer, size, c.c_int, c.c_int, pointer, pointer]
    library.ncclSend.argtypes = [pointer, size, c.c_int, c.c_int, pointer, pointer]
    library.ncclRecv.argtypes = [pointer, size, c.c_int, c.c_int, pointer, pointer]
    for name in ("ncclCommAbort", "ncclCommFinalize", "ncclCommDestroy"):
        getattr(library, name).argtypes = [pointer]
    if hasattr(library, "ncclGetLastError"):
        library.ncclGetLastError.argtypes, library.ncclGetLastError.restype = [pointer], c.c_char_p
    return library


def version_code(library: c.CDLL) -> int:
    """ncclGetVersion: 21400 for 2.14.0."""
    code = c.c_int()
    library.ncclGetVersion(c.byref(code))
    return code.value


def version(code: int) -> str:
    """`2.27.5` for 22705; up to 2.8 the code has one digit less (2708)."""
    major, rest = divmod(code, 10000 if code >= 10000 else 1000)
    return f"{major}.{rest // 100}.{rest % 100}"


class Cuda:
    """One GPU of the driver: a context, a stream, memory and events. Raises Refused and Failed."""

    def __init__(self, number: int) -> None:
        self.library = load_cuda()
        self.check("cuInit", self.library.cuInit(0))
        device, self._context, self.stream = c.c_int(), c.c_void_p(), c.c_void_p()
        self.check("cuDeviceGet", self.library.cuDeviceGet(c.byref(device), number))
        self.check("cuDevicePrimaryCtxRetain", self.library.cuDevicePrimaryCtxRetain(c.byref(self._context), device))
        self.check("cuCtxSetCurrent", self.library.cuCtxSetCurrent(self._context))
        self.check("cuStreamCreate", self.library.cuStreamCreate(c.byref(self.stream), 1))

    def check(self, call: str, code: int) -> None:
        """A code of the driver: fine, or raised."""
        if code:
            reason, message = CUDA_REASONS.get(code, ("cuda_error", f"error {code}"))
            kind = Refused if code in CUDA_REASONS else Failed
            raise kind(reason, f"{call}: {message}")

    def version(self) -> int:
        """Newest CUDA that the driver serves: 13000 for 13.0."""
        code = c.c_int()
        self.check("cuDriverGetVersion", self.library.cuDriverGetVersion(c.byref(code)))
        return code.value

    def free_memory(self) -> int:
        """Bytes."""
        free, total = c.c_size_t(), c.c_size_t()
        self.check("cuMemGetInfo", self.library.cuMemGetInfo_v2(c.byref(free), c.byref(total)))
        return free.value

    def allocate(self, size: int) -> int:
        """The address of so many zeroed bytes on the GPU."""
        address = c.c_uint64()
        self.check("cuMemAlloc", self.library.cuMemAlloc_v2(c.byref(address), size))
        self.check("cuMemsetD8Async", self.library.cuMemsetD8Async(address.value, 0, size, self.stream))
        return address.value

    def event(self) -> c.c_void_p:
        """A new event that keeps time."""
        made = c.c_void_p()
        self.check("cuEventCreate", self.library.cuEventCreate(c.byref(made), 0))
        return made

    def record(self, event: c.c_void_p) -> None:
        """Mark this place of the stream."""
        self.check("cuEventRecord", self.library.cuEventRecord(event, self.stream))

    def passed(self, event: c.c_void_p) -> bool:
        """Whether the stream has come to the mark."""
        code = self.library.cuEventQuery(event)
        if code != NOT_READY:
            self.check("cuEventQuery", code)
        return bool(code != NOT_READY)

    def seconds(self, first: c.c_void_p, last: c.c_void_p) -> float:
        """Between two marks that were passed, by the GPU's clock."""
        elapsed = getattr(self.library, "cuEventElapsedTime_v2", self.library.cuEventElapsedTime)
        milliseconds = c.c_float()
        self.check("cuEventElapsedTime", elapsed(c.byref(milliseconds), first, last))
        return milliseconds.value / 1e3


class Communicator:
    """A rank in a communicator that does not block. Every call is followed by polling the asynchronous error.

    `look` is called while it waits; it raises where the rank is to stop.
    """

    def __init__(self, library: c.CDLL, look: Callable[[], None]) -> None:
        self.library = library
        self.handle = c.c_void_p()
        self._look = look

    def join(self, unique: bytes, rank: int, ranks: int) -> None:
        """ncclCommInitRankConfig, until all have joined."""
        config = Config(c.sizeof(Config), 0xCAFEBEEF, OLDEST, 0)
        identity = UniqueId.from_buffer_copy(unique)
        init = self.library.ncclCommInitRankConfig
        self.settle(init(c.byref(self.handle), ranks, identity, rank, c.addressof(config)), "ncclCommInitRankConfig")

    def settle(self, code: int, call: str) -> None:
        """Wait until a call is through: before that the next one must not be made."""
        while True:
            if code not in (SUCCESS, IN_PROGRESS):
                raise Failed(REASONS.get(code, "nccl_error"), f"{call}: {self.describe(code)}")
            state = c.c_int()
            code = self.library.ncclCommGetAsyncError(self.handle, c.byref(state)) or state.value
            self._look()
            if code == SUCCESS:
                return
            if code == IN_PROGRESS:
                time.sleep(POLL_SECONDS)

    def describe(self, code: int) -> str:
        """What NCCL says of a code, and of the last error."""
        said = (self.library.ncclGetErrorString(code) or b"").decode(errors="replace")
        last = b""
        if hasattr(self.library, "ncclGetLastError"):
            last = self.library.ncclGetLastError(self.handle) or b""
        return f"{said}: {last.decode(errors='replace').strip()}" if last else said

    def call(self, name: str, *arguments: Any) -> None:
        """An operation on this communicator."""
        self.settle(getattr(self.library, name)(*arguments), name)


def unique_id(library: c.CDLL) -> bytes:
    """ncclGetUniqueId: from now on this process answers the ranks that join. Raises Failed."""
    identity = UniqueId()
    code = library.ncclGetUniqueId(c.byref(identity))
    if code != SUCCESS:
        said = (library.ncclGetErrorString(code) or b"").decode(errors="replace")
        raise Failed(REASONS.get(code, "nccl_error"), f"ncclGetUniqueId: {said}")
    return bytes(identity)
