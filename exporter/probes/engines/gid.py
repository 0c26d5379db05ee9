"""Which GID a RoCE port is to be used by. NCCL before 2.21 and perftest take the first, which is of version 1."""

from pathlib import Path


def roce_gid(port: Path) -> int:
    """The GID of RoCE version 2 with an IPv4 address, else of version 2 at all; -1 where there is none."""
    found: dict[int, str] = {}
    for entry in (port / "gid_attrs" / "types").glob("*"):
        if entry.name.isdigit() and text(entry) == "RoCE v2":
            found[int(entry.name)] = text(port / "gids" / entry.name)
    mapped = [index for index, gid in found.items() if gid.startswith("0000:0000:0000:0000:0000:ffff:")]
    return min(mapped or found, default=-1)


def text(path: Path) -> str:
    """A small file's content, '' where it can't be read."""
    try:
        return path.read_text().strip()
    except OSError:
        return ""
