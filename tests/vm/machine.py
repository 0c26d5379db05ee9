"""A virtual machine with Debian's stock kernel on this machine's own root, and commands in it as root.

Emulated (TCG) on purpose: nested KVM hangs on some hosts instead of failing, and seconds suffice.
"""

import base64
import queue
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

ROOT = Path(__file__).parents[2]
BUILT = ROOT / "build/vm"
AGENT = ROOT / "tests/vm/guest/agent.sh"
CHANNELS = 4
QEMU = "qemu-system-x86_64"
KERNEL = (
    "console=ttyS0 panic=-1 quiet loglevel=4 nokaslr mitigations=off audit=0 apparmor=0 tsc=reliable no_timer_check "
    "random.trust_cpu=on cryptomgr.notests raid=noautodetect"
)
SYSTEMD = "systemd.unit=lab.target systemd.show_status=0 systemd.firstboot=off"


class GuestError(Exception):
    """A command failed that must not, or the guest went away."""


def missing() -> str:
    """Why no guest can run here; '' where one can."""
    if shutil.which(QEMU) is None:
        return f"no {QEMU} on this machine"
    if not (BUILT / "initrd.cpio").is_file():
        return f"no guest kernel: tests/vm/build.sh makes it in {BUILT}"
    return ""


@dataclass(frozen=True, slots=True)
class Done:
    """How a command ended."""

    status: int
    out: str
    err: str


class _Channel:
    """One serial port to the agent: a line for a line."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._count = 0
        self._socket = socket.socket(socket.AF_UNIX)
        self._lines = self._socket.makefile("rb")

    def connect(self, seconds: float) -> None:
        self._socket.settimeout(max(1.0, seconds))
        self._socket.connect(str(self.path))
        if not (line := self._lines.readline()).startswith(b"READY"):
            raise GuestError(f"the agent said {line!r}")

    def run(self, command: str, seconds: float) -> Done:
        self._count += 1
        self._socket.settimeout(seconds)
        self._socket.sendall(b"%d %s\n" % (self._count, base64.b64encode(command.encode())))
        while line := self._lines.readline():
            number, status, *texts = line.split()
            if int(number) == self._count:
                out, err = (base64.b64decode(text[:-1]).decode(errors="replace") for text in texts)
                return Done(int(status), out, err)
        raise GuestError("the guest went away")

    def close(self) -> None:
        self._lines.close()
        self._socket.close()


class Machine:
    """Booted on entry, ended on exit. `nics` are virtio NICs on one hub; `systemd` makes that process 1."""

    def __init__(self, nics: int = 0, systemd: bool = False, memory_mib: int = 1024, boot_seconds: float = 300) -> None:
        self._boot_seconds = boot_seconds
        self._stack = ExitStack()
        self._folder = Path(tempfile.mkdtemp(prefix="eastwest-vm-"))
        self._stack.callback(shutil.rmtree, self._folder, ignore_errors=True)
        self._channels = [_Channel(self._folder / f"lab{index}") for index in range(CHANNELS)]
        self._free: queue.Queue[_Channel] = queue.Queue()
        self._argv = self._command(nics, systemd, memory_mib)

    def __enter__(self) -> Self:
        began = time.monotonic()
        process = subprocess.Popen(self._argv, stdin=subprocess.DEVNULL)
        self._stack.callback(process.wait)
        self._stack.callback(process.kill)
        self._pool = self._stack.enter_context(ThreadPoolExecutor(CHANNELS))
        for channel in self._channels:
            self._stack.callback(channel.close)
        try:
            self._connect(process, began + self._boot_seconds)
        except BaseException as error:
            error.add_note(self.console()[-3000:])
            self._stack.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def sh(self, command: str, seconds: float = 60, check: bool = True) -> Done:
        """Run a command by bash; one that fails raises GuestError with what it said, unless `check` is off."""
        channel = self._free.get(timeout=seconds)
        done = channel.run(command, seconds)
        self._free.put(channel)  # one that timed out is not used again
        if check and done.status:
            raise GuestError(f"{command}: status {done.status}\n{done.out}{done.err}")
        return done

    def start(self, command: str, seconds: float = 120) -> "Future[Done]":
        """Run a command beside others (four at most)."""
        return self._pool.submit(self.sh, command, seconds, check=False)

    def console(self) -> str:
        """What the kernel and process 1 have said."""
        try:
            return (self._folder / "console").read_text(errors="replace")
        except OSError:
            return ""

    def _connect(self, process: "subprocess.Popen[bytes]", end: float) -> None:
        while not all(channel.path.exists() for channel in self._channels):
            if process.poll() is not None:
                raise GuestError(f"{QEMU} ended with status {process.returncode}")
            time.sleep(0.02)
        for channel in self._channels:
            channel.connect(end - time.monotonic())
            self._free.put(channel)

    def _command(self, nics: int, systemd: bool, memory_mib: int) -> Sequence[str]:
        init = f"lab.init=/lib/systemd/systemd lab.units={BUILT}/units {SYSTEMD}" if systemd else ""
        argv = [QEMU, "-M", "q35", "-accel", "tcg", "-cpu", "max,la57=off", "-smp", "1", "-m", str(memory_mib)]
        argv += ["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]
        argv += ["-serial", f"file:{self._folder}/console"]
        argv += ["-kernel", str(BUILT / "vmlinux"), "-initrd", str(BUILT / "initrd.cpio")]
        argv += ["-append", f"{KERNEL} lab.script={AGENT} lab.modules={BUILT}/root/lib/modules {init}"]
        argv += ["-fsdev", "local,id=r,path=/,security_model=none,readonly=on,multidevs=remap"]
        argv += ["-device", "virtio-9p-pci,fsdev=r,mount_tag=hostroot", "-device", "virtio-serial-pci"]
        for index, channel in enumerate(self._channels):
            argv += ["-chardev", f"socket,id=c{index},path={channel.path},server=on,wait=off"]
            argv += ["-device", f"virtserialport,chardev=c{index},name=lab{index}"]
        for index in range(nics):
            device = f"virtio-net-pci,netdev=h{index},mac=52:54:00:00:01:{index:02x},speed=100000,duplex=full,romfile="
            argv += ["-netdev", f"hubport,id=h{index},hubid=1", "-device", device]
        return argv
