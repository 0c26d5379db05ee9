"""A fake `libnccl.so.2` and `libcuda.so.1`, built here, that the unmodified worker loads; and their knobs.

    ndev N · free BYTES · driver N · cuinit CODE · version N · initerror CODE
    skew S (how late rank `at` begins after each pause)
    rate BYTES_PER_S · rate.A.B BYTES_PER_S (rank A to B) · latency S · jitter S (every seventh operation)
    transport TEXT · hang init|connect|run · fault die|remote_error · at RANK (who hangs or fails) · hang_abort 1
    dump FOLDER (each rank's environment, and whether it was told to abort)

They show that the worker finds its way, its numbers and its end; nothing about NCCL itself.
"""

import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent


def build(folder: Path, *flags: str) -> Path:
    """Both libraries, in a folder for LD_LIBRARY_PATH. Skips the test where there is no compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no cc here: the fake NCCL and CUDA libraries can't be built")
    argv = [
        compiler,
        "-Wall",
        "-Wextra",
        "-Wno-unused-function",
        "-Werror",
        "-O1",
        "-fPIC",
        "-shared",
        "-pthread",
        *flags,
    ]
    for source, name in (("fakecuda.c", "libcuda.so.1"), ("fakenccl.c", "libnccl.so.2")):
        subprocess.run(
            [*argv, f"-Wl,-soname,{name}", "-o", str(folder / name), str(HERE / source), "-ldl"], check=True, timeout=60
        )
    return folder


def configure(folder: Path, **knobs: object) -> Path:
    """Set the knobs, all of them; `rate__0__1` is `rate.0.1`."""
    lines = (f"{name.replace('__', '.')} {value}\n" for name, value in knobs.items())
    (folder / "fake.conf").write_text("".join(lines))
    return folder
