"""Who was given the node: Slurm by its cgroups and processes, Kubernetes by kubelet's socket."""

import socket
import struct
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Thread

import h2.config
import h2.connection
import h2.events
import pytest

from exporter.hardware.pod_resources import PodGpus
from exporter.hardware.slurm import SlurmJobs
from exporter.model import SourceError, Unavailable


def process(proc: Path, pid: int, name: str, command: str) -> None:
    (proc / str(pid)).mkdir(parents=True)
    (proc / str(pid) / "comm").write_text(f"{name}\n")
    (proc / str(pid) / "cmdline").write_text(command)


@pytest.fixture
def node(tmp_path: Path) -> tuple[Path, Path]:
    """/proc and the cgroups of a node with Slurm that runs nothing."""
    proc, cgroup = tmp_path / "proc", tmp_path / "cgroup"
    process(proc, 1, "systemd", "/sbin/init")
    process(proc, 2, "kthreadd", "")
    process(proc, 900, "slurmd", "/usr/sbin/slurmd -D")
    process(proc, 901, "slurmstepd", "/usr/sbin/slurmstepd infinity")
    (cgroup / "system.slice" / "slurmstepd.scope" / "system").mkdir(parents=True)
    return proc, cgroup


def test_slurm_without_a_job(node: tuple[Path, Path]) -> None:
    assert SlurmJobs(*node).holders() == ()


@pytest.mark.parametrize(
    "folder",
    [
        "system.slice/slurmstepd.scope/job_42",
        "system.slice/gpu-7_slurmstepd.scope/job_42",
        "freezer/slurm/uid_1000/job_42",
        "memory/slurm_gpu-7/uid_1000/job_42",
    ],
)
def test_a_job_by_its_cgroup(node: tuple[Path, Path], folder: str) -> None:
    (node[1] / folder).mkdir(parents=True)
    assert SlurmJobs(*node).holders() == ("job 42",)
    assert SlurmJobs(*node, but="42").holders() == (), "the hook of job 42 asks"


def test_a_step_by_its_process(node: tuple[Path, Path]) -> None:
    process(node[0], 950, "slurmstepd", "slurmstepd: [43.batch]")
    assert SlurmJobs(*node).holders() == ("job 43",)


def test_a_node_without_slurm(tmp_path: Path) -> None:
    process(tmp_path / "proc", 1, "systemd", "/sbin/init")
    process(tmp_path / "proc", 2, "kthreadd", "")
    with pytest.raises(Unavailable):
        SlurmJobs(tmp_path / "proc", tmp_path / "cgroup").holders()
    with pytest.raises(SourceError):
        SlurmJobs(tmp_path / "nothing", tmp_path / "cgroup").holders()


@pytest.mark.parametrize("init", ["", "systemd", "eastwest"], ids=["hidepid", "gaps", "a container's"])
def test_where_processes_are_hidden_nobody_knows_whether_there_is_slurm(tmp_path: Path, init: str) -> None:
    """Ours alone are seen under hidepid=2 and in a PID namespace of our own; 2 is no kernel thread then."""
    process(tmp_path / "proc", 4711, "python3", "eastwest serve")
    if init:
        process(tmp_path / "proc", 1, init, init)
    if init == "eastwest":
        process(tmp_path / "proc", 2, "python3", "eastwest serve")
    with pytest.raises(SourceError, match="nobody knows whether Slurm runs here"):
        SlurmJobs(tmp_path / "proc", tmp_path / "cgroup").holders()


def test_under_hidepid_1_they_are_listed_but_not_readable(
    node: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    read = Path.read_text

    def refused(path: Path) -> str:
        if path.parent.name == "900":
            raise PermissionError(1, "Operation not permitted", str(path))
        return read(path)

    monkeypatch.setattr(Path, "read_text", refused)
    with pytest.raises(SourceError, match="nobody knows whether Slurm runs here"):
        SlurmJobs(*node).holders()


def test_a_job_that_is_seen_counts_also_where_others_may_be_hidden(node: tuple[Path, Path]) -> None:
    (node[0] / "2" / "comm").unlink()
    (node[1] / "system.slice/slurmstepd.scope/job_42").mkdir()
    assert SlurmJobs(*node).holders() == ("job 42",)
    with pytest.raises(SourceError):
        SlurmJobs(*node, but="42").holders()


def field(number: int, content: bytes) -> bytes:
    size = len(content)
    return bytes([number << 3 | 2]) + (bytes([size]) if size < 128 else bytes([size & 127 | 128, size >> 7])) + content


def pod(name: str, resource: str = "", driver: str = "") -> bytes:
    container = field(1, b"main") + bytes([3 << 3, 200, 1])
    if resource:
        container += field(2, field(1, resource.encode()) + field(2, b"GPU-1"))
    if driver:
        container += field(5, field(1, b"claim") + field(4, field(2, driver.encode())))
    return field(1, field(1, name.encode()) + field(2, b"ml") + field(3, container))


class Kubelet:
    """Answers one call as kubelet's gRPC server does; `status` None: nothing is ever said."""

    def __init__(self, path: Path, answer: bytes, status: str | None = "0") -> None:
        self._answer = answer
        self._status = status
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(str(path))
        self._socket.listen()
        self.path = ""
        self._line: socket.socket | None = None
        Thread(target=self._answer_until_gone, daemon=True).start()

    def close(self) -> None:
        """No more."""
        self._socket.close()
        if self._line is not None:
            self._line.close()

    def _answer_until_gone(self) -> None:
        """Whoever asks has what it came for before the last word, and may go."""
        with suppress(OSError):
            self._serve()

    def _serve(self) -> None:
        line, _ = self._socket.accept()
        self._line = line
        connection = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False, header_encoding="utf-8"))
        connection.initiate_connection()
        line.sendall(connection.data_to_send())
        while self._status is not None and (data := line.recv(65536)):
            for event in connection.receive_data(data):
                if isinstance(event, h2.events.RequestReceived):
                    self.path = str(dict(event.headers)[":path"])  # type: ignore[index]  # text, as configured
                elif isinstance(event, h2.events.StreamEnded) and event.stream_id is not None:
                    self._reply(connection, event.stream_id, self._status)
            line.sendall(connection.data_to_send())

    def _reply(self, connection: h2.connection.H2Connection, stream: int, status: str) -> None:
        connection.send_headers(stream, [(":status", "200"), ("content-type", "application/grpc")])
        message = struct.pack(">BI", 0, len(self._answer)) + self._answer
        for at in range(0, len(message), 16000):
            connection.send_data(stream, message[at : at + 16000])
        connection.send_headers(stream, [("grpc-status", status)], end_stream=True)


@pytest.fixture
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("k") / "s"


@pytest.fixture
def kubelets() -> Iterator[list[Kubelet]]:
    made: list[Kubelet] = []
    yield made
    for kubelet in made:
        kubelet.close()


def test_pods_that_hold_a_gpu(path: Path, kubelets: list[Kubelet]) -> None:
    answer = (
        pod("train-0", "nvidia.com/gpu")
        + pod("web", "vendor.example/fpga")
        + pod("mig", "nvidia.com/mig-1g.10gb")
        + pod("claimed", driver="gpu.nvidia.com")
        + pod("plain")
    )
    kubelets.append(Kubelet(path, answer))
    assert PodGpus(path, 5.0).holders() == ("ml/claimed", "ml/mig", "ml/train-0")
    assert kubelets[0].path == "/v1.PodResourcesLister/List"


def test_no_pod_holds_one_and_the_answer_may_be_long(path: Path, kubelets: list[Kubelet]) -> None:
    kubelets.append(Kubelet(path, b"".join(pod(f"pod-{number}") for number in range(1500))))
    assert PodGpus(path, 5.0).holders() == ()


def test_an_empty_answer_is_nobody(path: Path, kubelets: list[Kubelet]) -> None:
    kubelets.append(Kubelet(path, b""))
    assert PodGpus(path, 5.0).holders() == ()


def test_no_kubelet(path: Path) -> None:
    with pytest.raises(Unavailable):
        PodGpus(path).holders()


def test_a_folder_that_may_not_be_looked_into_is_not_no_kubelet(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(path: Path, **_: object) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "stat", refused)
    monkeypatch.setattr(Path, "exists", lambda _: False)  # as of Python 3.14
    with pytest.raises(SourceError, match="Permission denied"):
        PodGpus(Path("/var/lib/kubelet/pod-resources/kubelet.sock")).holders()


def test_a_socket_that_hangs_fails_in_time(path: Path, kubelets: list[Kubelet]) -> None:
    kubelets.append(Kubelet(path, b"", status=None))
    with pytest.raises(SourceError, match="does not answer"):
        PodGpus(path, 0.2).holders()


def test_a_socket_nobody_listens_on(path: Path) -> None:
    made = socket.socket(socket.AF_UNIX)
    made.bind(str(path))
    made.close()
    with pytest.raises(SourceError, match="refused"):
        PodGpus(path, 1.0).holders()


@pytest.mark.parametrize(("answer", "status"), [(b"", "12"), (b"\x0a\xff\x01", "0"), (b"\xff\xff\xff", "0")])
def test_an_error_or_nonsense_is_a_failure(path: Path, kubelets: list[Kubelet], answer: bytes, status: str) -> None:
    kubelets.append(Kubelet(path, answer, status))
    with pytest.raises(SourceError):
        PodGpus(path, 5.0).holders()
