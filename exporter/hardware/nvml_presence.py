"""Whether there is an NVML at all, and whose it is: from files alone, since loading it is the worker's business."""

import os
from pathlib import Path

LIBRARY = "libnvidia-ml.so.1"
_FOLDERS = ("/lib64", "/usr/lib64", "/lib", "/usr/lib", "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu")


def library_is_there() -> bool:
    """Whether the dynamic loader would find NVML; looks at files alone, loads nothing."""
    try:
        if f"{LIBRARY}\0".encode() in Path("/etc/ld.so.cache").read_bytes():
            return True
    except OSError:
        pass  # no cache: musl, or a bare container
    folders = (*os.environ.get("LD_LIBRARY_PATH", "").split(":"), *_FOLDERS)
    preloaded = os.environ.get("LD_PRELOAD", "")
    return LIBRARY in preloaded or any(folder and Path(folder, LIBRARY).exists() for folder in folders)


def in_container() -> bool:
    """Whether this process runs in a container, which has its own copy of the driver's libraries."""
    marks = ("/.dockerenv", "/run/.containerenv")
    return "KUBERNETES_SERVICE_HOST" in os.environ or any(Path(mark).exists() for mark in marks)
