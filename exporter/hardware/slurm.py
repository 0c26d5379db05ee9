"""Which Slurm jobs are on this node: from the cgroups of slurmstepd and its processes. Asks no controller.

With cgroup v2 a job is `system.slice/[NODE_]slurmstepd.scope/job_N`, with v1 `CONTROLLER/slurm[_NODE]/uid_U/job_N`
(https://slurm.schedmd.com/cgroup_v2.html). A site without Slurm's cgroups still has a slurmstepd for each step.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from exporter.model import SourceError, Unavailable

JOB_FOLDERS = ("system.slice/*slurmstepd.scope/job_*", "slurm*/uid_*/job_*", "*/slurm*/uid_*/job_*")
_STEP = re.compile(r"slurmstepd: \[(\d+)")


class SlurmJobs:
    """`proc` and `cgroup` are where the host's are. `but` is a job that does not count: the one whose hook asks."""

    def __init__(self, proc: Path, cgroup: Path, but: str = "") -> None:
        self._proc = proc
        self._cgroup = cgroup
        self._but = but

    def holders(self) -> tuple[str, ...]:
        """The jobs, as `job 123`. Raises Unavailable where there is no Slurm, SourceError where that can't be seen."""
        jobs, here = set(self._by_cgroup()), False
        for name, command in self._processes():
            here = here or name in ("slurmd", "slurmstepd")
            if name == "slurmstepd" and (step := _STEP.match(command)):
                jobs.add(step[1])
        if not here and not jobs:
            raise Unavailable("no slurmd runs here")
        return tuple(f"job {job}" for job in sorted(jobs - {self._but}))

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
            except OSError:
                continue  # it has ended meanwhile
