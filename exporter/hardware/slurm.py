"""Which Slurm jobs are on this node: from the cgroups of slurmstepd and its processes. Asks no controller.

With cgroup v2 a job is `system.slice/[NODE_]slurmstepd.scope/job_N`, with v1 `CONTROLLER/slurm[_NODE]/uid_U/job_N`
(https://slurm.schedmd.com/cgroup_v2.html). A site without Slurm's cgroups still has a slurmstepd for each step.

That no process is seen means something only to who sees the processes of others. `hidepid` of /proc's mount
(systemd's ProtectProc=) hides root's, a PID namespace of its own the host's. Process 2 tells: on the host it is
always the kernel's kthreadd (rest_init in the kernel's init/main.c), root's as slurmd is, and no other namespace has
kernel threads. Nothing else is taken for proof that there is no Slurm: paths, ports and units differ from site to site.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from exporter.model import SourceError, Unavailable

JOB_FOLDERS = ("system.slice/*slurmstepd.scope/job_*", "slurm*/uid_*/job_*", "*/slurm*/uid_*/job_*")
KTHREADD = ("2", "kthreadd")
HIDDEN = (
    "the host's processes can't be seen in {proc} (hidepid, ProtectProc= or a PID namespace of our own), "
    "so nobody knows whether Slurm runs here"
)
_STEP = re.compile(r"slurmstepd: \[(\d+)")


class SlurmJobs:
    """`proc` and `cgroup` are where the host's are. `but` is a job that does not count: the one whose hook asks."""

    def __init__(self, proc: Path, cgroup: Path, but: str = "") -> None:
        self._proc = proc
        self._cgroup = cgroup
        self._but = but

    def holders(self) -> tuple[str, ...]:
        """The jobs, as `job 123`. Raises Unavailable where there is no Slurm, SourceError where that can't be seen.

        What is seen of a job counts also where not all can be seen.
        """
        jobs, here = set(self._by_cgroup()), False
        for name, command in self._processes():
            here = here or name in ("slurmd", "slurmstepd")
            if name == "slurmstepd" and (step := _STEP.match(command)):
                jobs.add(step[1])
        others = sorted(jobs - {self._but})
        if not others and not self._sees_all():
            raise SourceError("hidden", HIDDEN.format(proc=self._proc))
        if not here and not jobs:
            raise Unavailable("no slurmd runs here")
        return tuple(f"job {job}" for job in others)

    def _sees_all(self) -> bool:
        number, name = KTHREADD
        try:
            return (self._proc / number / "comm").read_text().strip() == name
        except OSError:
            return False

    def _by_cgroup(self) -> Iterator[str]:
        for pattern in JOB_FOLDERS:
            for folder in self._cgroup.glob(pattern):
                yield folder.name.removeprefix("job_")

    def _processes(self) -> Iterator[tuple[str, str]]:
        """Name and command line of the processes that could be Slurm's."""
        try:
            folders = [entry for entry in self._proc.iterdir() if entry.name.isdigit()]
        except OSError as error:
            raise SourceError("unreadable", f"{self._proc}: {error.strerror}") from error
        for folder in folders:
            try:
                name = (folder / "comm").read_text().strip()
                if name.startswith("slurm"):
                    yield name, (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except (FileNotFoundError, ProcessLookupError):
                continue  # it has ended meanwhile
            except PermissionError as error:
                raise SourceError("hidden", HIDDEN.format(proc=self._proc)) from error
            except OSError as error:
                raise SourceError("unreadable", f"{folder}: {error.strerror}") from error
