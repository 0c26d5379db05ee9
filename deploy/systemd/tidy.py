"""tidy.py LIB: what the archive does not ship goes, and each RECORD names what is there and nothing else.

pip writes into RECORDs the sums of commands that it made, which hold the builder's paths, and which are not shipped.
"""

import base64
import csv
import hashlib
import io
import shutil
import sys
from pathlib import Path

UNWANTED = ("bin", "example.py", "numpy/tests", "numpy/*/tests")
"""Commands of libraries, nvidia-ml-py's example, which lies beside the packages, and numpy's own tests."""


def main(lib: Path) -> int:
    """Tidy `lib`, as `pip install --target` left it."""
    for pattern in UNWANTED:
        for path in lib.glob(pattern):
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()
    for record in sorted(lib.glob("*.dist-info/RECORD")):
        with record.open(newline="") as file:
            rows = [row for row in csv.reader(file) if row and _shipped(lib, row[0])]
        for name, digest, _ in rows:
            if digest and digest != _digest(lib / name):
                sys.stderr.write(f"{record}: {name} is not what was packaged\n")
                return 1
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(sorted(rows))
        record.write_text(text.getvalue())
    return 0


def _shipped(lib: Path, name: str) -> bool:
    path = Path(name)
    return ".." not in path.parts and not path.is_absolute() and (lib / path).is_file()


def _digest(path: Path) -> str:
    digest = hashlib.sha256(path.read_bytes()).digest()
    return f"sha256={base64.urlsafe_b64encode(digest).decode().rstrip('=')}"


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
