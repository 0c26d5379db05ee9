"""The host's processors, by psutil."""

from pathlib import Path

import psutil

from exporter.model import CpuTimes, SourceError


class PsutilHost:
    """Reads `<proc>/stat`."""

    def __init__(self, proc: Path) -> None:
        # psutil knows the root of procfs by this module attribute alone (its documentation, "PROCFS_PATH").
        psutil.PROCFS_PATH = str(proc)

    def cpu_times(self) -> CpuTimes:
        """See hardware.base.HostSource."""
        try:
            times = psutil.cpu_times()
        except (OSError, ValueError, IndexError, TypeError) as error:  # TypeError: fewer fields than psutil saw first
            raise SourceError("unreadable", f"{psutil.PROCFS_PATH}/stat: {error}") from error
        # guest time is part of user time already (proc(5))
        total = sum(times) - getattr(times, "guest", 0.0) - getattr(times, "guest_nice", 0.0)
        return CpuTimes(total, getattr(times, "steal", 0.0), getattr(times, "softirq", 0.0))


def boot_id(proc: Path) -> str:
    """What this boot is called: `<proc>/sys/kernel/random/boot_id`; empty where that can't be read."""
    try:
        return (proc / "sys/kernel/random/boot_id").read_text(encoding="ascii", errors="replace").strip()[:64]
    except OSError:
        return ""
