"""Who may ask: TLS and passwords by a web.yml as Prometheus' exporter-toolkit has it, reloaded without a restart.

https://github.com/prometheus/exporter-toolkit/blob/master/docs/web-configuration.md
"""

import logging
import ssl
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from exporter.model import UserError
from exporter.strict import FilePath, Model, read_model
from exporter.whole import stamp

log = logging.getLogger(__name__)
_VERSIONS = {"TLS12": ssl.TLSVersion.TLSv1_2, "TLS13": ssl.TLSVersion.TLSv1_3}
_CLIENTS = {
    "NoClientCert": ssl.CERT_NONE,
    "VerifyClientCertIfGiven": ssl.CERT_OPTIONAL,
    "RequireAndVerifyClientCert": ssl.CERT_REQUIRED,
}


def _bcrypt(value: Any) -> str:
    if not isinstance(value, str) or not value.startswith(("$2a$", "$2b$", "$2y$")) or len(value) != 60:
        raise ValueError('a bcrypt hash is needed, as `htpasswd -nBC 10 ""` makes it')
    return value


class TlsConfig(Model):
    """`tls_server_config`; a relative path is relative to the file."""

    cert_file: FilePath
    key_file: FilePath
    client_ca_file: FilePath | None = None
    client_auth_type: Literal["NoClientCert", "VerifyClientCertIfGiven", "RequireAndVerifyClientCert"] = "NoClientCert"
    min_version: Literal["TLS12", "TLS13"] = "TLS12"

    @model_validator(mode="after")
    def _ca_where_it_is_needed(self) -> Self:
        if (self.client_ca_file is not None) != (self.client_auth_type != "NoClientCert"):
            raise ValueError("client_ca_file and a client_auth_type that verifies belong together")
        return self


class WebFile(Model):
    """The whole file."""

    tls_server_config: TlsConfig | None = None
    basic_auth_users: dict[str, Annotated[str, BeforeValidator(_bcrypt)]] = Field(default_factory=dict)


class Web:
    """What a web.yml says, kept up with its files. `context` is None without TLS, and stays the same object.

    A certificate is loaded into the live context: swapping contexts loses the check of client certificates.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = read_model(path, WebFile, secret=True)
        self.context = _context(self._tls(self._file)) if self._file.tls_server_config else None
        self._seen = self._stamps()

    @property
    def users(self) -> dict[str, str]:
        """Name -> bcrypt hash; empty where no password is asked."""
        return self._file.basic_auth_users

    def refresh(self) -> None:
        """Take what has changed on disk; a bad change is said once, and the old stays in use."""
        stamps = self._stamps()
        if stamps == self._seen:
            return
        self._seen = stamps
        try:
            self._take(read_model(self._path, WebFile, secret=True))
        except UserError as error:
            log.error("the new certificates or passwords are not used: %s", error)  # noqa: TRY400 - a user's mistake
            return
        self._seen = self._stamps()
        log.info("new certificates and passwords are in use")

    def _take(self, file: WebFile) -> None:
        if (file.tls_server_config is None) != (self.context is None):
            raise UserError(f"{self._path}: TLS can be turned on or off by a restart only")
        if self.context is not None:
            tls = self._tls(file)
            _context(tls)  # a pair that does not fit must not reach the live context
            try:
                self.context.load_cert_chain(tls.cert_file, tls.key_file, password=_no_password)
            except (OSError, ValueError) as error:
                # They changed between the two reads: try again at the next turn, whatever the stamps say.
                self._seen = ()
                raise UserError(f"{tls.cert_file}: changed while it was read") from error
        self._file = file

    def _tls(self, file: WebFile) -> TlsConfig:
        tls = file.tls_server_config
        if tls is None:
            raise UserError(f"{self._path}: tls_server_config is missing")
        folder = self._path.parent
        found = {
            name: folder / value
            for name in ("cert_file", "key_file", "client_ca_file")
            if (value := getattr(tls, name))
        }
        return tls.model_copy(update=found)

    def _stamps(self) -> tuple[object, ...]:
        """Changes when any of the files does."""
        tls = self._file.tls_server_config
        files = [self._path]
        if tls is not None:
            files += [self._path.parent / tls.cert_file, self._path.parent / tls.key_file]
        return tuple(_stamp(file) for file in files)


def _stamp(file: Path) -> tuple[int, int, int] | None:
    try:
        return stamp(file)
    except OSError:
        return None


def _context(tls: TlsConfig) -> ssl.SSLContext:
    """Raises UserError where a file can't be read, or certificate and key don't fit."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = _VERSIONS[tls.min_version]
    context.set_alpn_protocols(["http/1.1"])
    context.verify_mode = _CLIENTS[tls.client_auth_type]
    try:
        context.load_cert_chain(tls.cert_file, tls.key_file, password=_no_password)
        if tls.client_ca_file is not None:
            context.load_verify_locations(tls.client_ca_file)
    except (OSError, ValueError) as error:
        files = f"{tls.cert_file}, {tls.key_file}" + (f", {tls.client_ca_file}" if tls.client_ca_file else "")
        raise UserError(f"tls_server_config: {files}: {getattr(error, 'strerror', None) or error}") from error
    return context


def _no_password() -> str:
    """An encrypted key can't be asked for on a daemon's terminal."""
    raise ValueError("the key is encrypted; a plain one is needed")
