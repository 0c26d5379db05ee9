"""Certificates for the tests, by the openssl command."""

import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its key."""

    cert: Path
    key: Path


def openssl(*arguments: str | Path) -> None:
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True, timeout=60)


def authority(folder: Path, name: str) -> Pair:
    """A certificate that may sign others."""
    pair = Pair(folder / f"{name}.pem", folder / f"{name}.key")
    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
            "-subj", f"/CN={name}", "-keyout", pair.key, "-out", pair.cert)  # fmt: skip
    return pair


def signed(folder: Path, name: str, by: Pair) -> Pair:
    """A certificate for 127.0.0.1, signed by an authority."""
    pair, request, extra = Pair(folder / f"{name}.pem", folder / f"{name}.key"), folder / f"{name}.csr", folder / "ext"
    extra.write_text("subjectAltName=IP:127.0.0.1\n")
    openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", f"/CN={name}",
            "-keyout", pair.key, "-out", request)  # fmt: skip
    openssl("x509", "-req", "-in", request, "-CA", by.cert, "-CAkey", by.key, "-CAcreateserial", "-days", "2",
            "-extfile", extra, "-out", pair.cert)  # fmt: skip
    return pair
