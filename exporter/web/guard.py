"""What stands between a connection and a page, by `web.config_file`; looks for a new version of it while serving."""

import logging
import ssl
from collections.abc import Mapping
from pathlib import Path

from exporter.model import UserError
from exporter.web.file import WebFile, read_web_file
from exporter.web.passwords import Passwords, Verdict
from exporter.web.tls import live_context, server_context

LOOK_SECONDS = 1.0
"""How often the files are looked at."""
log = logging.getLogger(__name__)
Stamp = Mapping[Path, tuple[int, int, int] | None]


class Guard:
    """TLS and passwords by a file. Raises UserError where the file, or one it names, is no good."""

    def __init__(self, path: Path) -> None:
        self._path = path
        found = read_web_file(path)
        self._stamp = _stamp(path, found)
        tls = found.tls_server_config
        self._live = live_context(server_context(tls)) if tls else None
        self._passwords = Passwords(found.basic_auth_users)
        if found.basic_auth_users and tls is None:
            log.warning("%s: passwords without TLS can be read on the way", path)
        self._file = found

    @property
    def context(self) -> ssl.SSLContext | None:
        """The context of the listening socket, the same one for good; None for plain HTTP."""
        return self._live

    async def decide(self, headers: Mapping[bytes, bytes], address: str) -> Verdict:
        """On one request."""
        if not self._passwords.users:
            return Verdict.ALLOWED
        return await self._passwords.decide(headers.get(b"authorization", b""), address)

    def look(self) -> None:
        """Take over what has changed in the files; one that is no good is said once, and the old one kept."""
        stamp = _stamp(self._path, self._file)
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            found = read_web_file(self._path)
            self._stamp = _stamp(self._path, found)
            self._use(found)
        except UserError as error:
            log.error("the new TLS and passwords are not used:\n%s", error)  # noqa: TRY400 - a user's mistake
            return
        self._file = found
        log.info("new TLS settings and passwords are in use")

    def close(self) -> None:
        """End what runs."""
        self._passwords.close()

    def _use(self, found: WebFile) -> None:
        tls = found.tls_server_config
        if (tls is None) != (self._live is None):
            raise UserError(f"{self._path}: to begin or end TLS needs a restart")
        if tls and self._live:
            self._live.current = server_context(tls)
        self._passwords.users = found.basic_auth_users


def _stamp(path: Path, found: WebFile) -> Stamp:
    """Changes when one of the files is another one than before; also through a symlink that was turned."""
    tls = found.tls_server_config
    files = [path, *(file for file in (tls.cert_file, tls.key_file, tls.client_ca_file) if file)] if tls else [path]
    return {file: _identity(file) for file in files}


def _identity(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size
