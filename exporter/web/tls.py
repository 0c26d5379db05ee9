"""The server's side of TLS: a context whose settings can be replaced while connections are served."""

import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from exporter.model import UserError
from exporter.web.file import CIPHERS, TlsFile

VERSIONS = {"TLS12": ssl.TLSVersion.TLSv1_2, "TLS13": ssl.TLSVersion.TLSv1_3}
AUTH = {
    "NoClientCert": ssl.CERT_NONE,
    "VerifyClientCertIfGiven": ssl.CERT_OPTIONAL,
    "RequireAndVerifyClientCert": ssl.CERT_REQUIRED,
}
DEFAULT_CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"
MAX_BYTES = 1 << 20


class LiveContext(ssl.SSLContext):
    """A context that hands each new connection to another one, complete in itself, that can be replaced.

    asyncio asks its context for one object a connection (`wrap_bio`). A certificate alone could be loaded into a
    live context, but a client CA could not be taken out of one, and a key that does not fit would leave it
    without any. Replacing the context in the SNI callback loses the check of client certificates.
    """

    current: ssl.SSLContext

    def wrap_bio(self, *arguments: Any, **named: Any) -> ssl.SSLObject:
        """As SSLContext.wrap_bio, by the context of the moment."""
        return self.current.wrap_bio(*arguments, **named)


def live_context(first: ssl.SSLContext) -> LiveContext:
    """A LiveContext that begins with `first`."""
    live = LiveContext(ssl.PROTOCOL_TLS_SERVER)
    live.current = first
    return live


def server_context(tls: TlsFile) -> ssl.SSLContext:
    """The context that the file describes. Raises UserError that names the file at fault.

    Sessions are never resumed: a resumed one would pass by what has changed since.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version, context.maximum_version = VERSIONS[tls.min_version], VERSIONS[tls.max_version]
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_TICKET
    if tls.prefer_server_cipher_suites:
        context.options |= ssl.OP_CIPHER_SERVER_PREFERENCE
    context.num_tickets = 0
    context.set_ciphers(":".join(CIPHERS[name] for name in tls.cipher_suites) or DEFAULT_CIPHERS)
    context.set_alpn_protocols(["http/1.1"])
    # Read once, so that a renewal in this moment can't mix an old key with a new certificate unnoticed.
    with _in_memory(tls.cert_file) as certificate, _in_memory(tls.key_file) as key:
        try:
            context.load_cert_chain(certificate, key, password=_no_password)
        except (ssl.SSLError, ValueError) as error:
            why = getattr(error, "reason", None) or "not in PEM format, or encrypted"
            raise UserError(f"{tls.cert_file}, {tls.key_file}: {why}") from None
    if tls.client_ca_file is not None:
        try:
            context.load_verify_locations(cadata=_read(tls.client_ca_file).decode("ascii"))
        except (ssl.SSLError, ValueError) as error:
            raise UserError(f"{tls.client_ca_file}: no certificates in PEM format") from error
    context.verify_mode = AUTH[tls.client_auth_type]
    return context


def _no_password() -> str:
    """Without this OpenSSL would ask the terminal for the password of an encrypted key."""
    raise ValueError("encrypted keys are not supported")


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(MAX_BYTES)
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from error


@contextmanager
def _in_memory(path: Path) -> Iterator[str]:
    """A private copy of a file, for a library that reads paths only."""
    content = _read(path)
    descriptor = os.memfd_create("eastwest", os.MFD_CLOEXEC)
    try:
        os.write(descriptor, content)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
