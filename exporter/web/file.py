"""The file of `web.config_file`: exporter-toolkit's web.yml, as much of it as is supported here, strictly.

https://github.com/prometheus/exporter-toolkit/blob/master/docs/web-configuration.md. An error never repeats a
value of this file: it may be a password or a key in the wrong place.
"""

import re
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, ValidationError, model_validator
from pydantic_core import ErrorDetails

from exporter.config import MAX_SHOWN, Model
from exporter.model import UserError
from exporter.yaml_file import Ambiguous, read_yaml

MAX_COST = 15
"""A bcrypt hash of cost 15 takes seconds to check; a higher one would let one request keep a processor busy."""
MAX_USERS = 100
_HASH = re.compile(r"\$2[aby]\$(\d\d)\$[./A-Za-z0-9]{53}")
_UNVERIFIED = {"RequestClientCert", "RequireAnyClientCert"}
CIPHERS = {
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
}
"""Cipher suites of TLS 1.2 by Go's name, as the file has it, and by OpenSSL's; those of TLS 1.3 are fixed."""


def _cipher(value: Any) -> str:
    if not isinstance(value, str) or value not in CIPHERS:
        raise ValueError(f"one of {', '.join(CIPHERS)} is needed")
    return value


def _hash(value: Any) -> str:
    match = _HASH.fullmatch(value) if isinstance(value, str) else None
    if not match:
        raise ValueError("a bcrypt hash is needed, such as `htpasswd -nBC 10` makes")
    if not 4 <= int(match[1]) <= MAX_COST:
        raise ValueError(f"a bcrypt cost from 4 to {MAX_COST} is needed")
    return value if isinstance(value, str) else ""


def _client_auth(value: Any) -> Any:
    if value in _UNVERIFIED:
        raise ValueError("a certificate that is not verified proves nothing: use RequireAndVerifyClientCert")
    return value


Version = Literal["TLS12", "TLS13"]
Name = Annotated[Path, Field(strict=False)]
ClientAuth = Annotated[
    Literal["NoClientCert", "VerifyClientCertIfGiven", "RequireAndVerifyClientCert"], BeforeValidator(_client_auth)
]


class TlsFile(Model):
    """`tls_server_config`; relative paths are relative to the file's folder."""

    cert_file: Name
    key_file: Name
    client_ca_file: Name | None = None
    client_auth_type: ClientAuth = "NoClientCert"
    min_version: Version = "TLS12"
    max_version: Version = "TLS13"
    cipher_suites: tuple[Annotated[str, BeforeValidator(_cipher)], ...] = Field(default=(), strict=False)
    prefer_server_cipher_suites: bool = True

    @model_validator(mode="after")
    def _together(self) -> Self:
        if (self.client_auth_type == "NoClientCert") != (self.client_ca_file is None):
            raise ValueError("client_ca_file and a client_auth_type that verifies are needed together")
        if self.min_version > self.max_version:
            raise ValueError("min_version is above max_version")
        return self


class HttpFile(Model):
    """`http_server_config`."""

    http2: Literal[False] = False


class WebFile(Model):
    """The whole file."""

    tls_server_config: TlsFile | None = None
    http_server_config: HttpFile = HttpFile()
    basic_auth_users: dict[Annotated[str, Field(min_length=1)], Annotated[str, BeforeValidator(_hash)]] = Field(
        default_factory=dict, max_length=MAX_USERS
    )

    @model_validator(mode="after")
    def _no_colon(self) -> Self:
        if any(":" in user for user in self.basic_auth_users):
            raise ValueError("basic_auth_users: no user's name can have a colon")
        return self


def read_web_file(path: Path) -> WebFile:
    """The file, its paths made absolute. Raises UserError with a line for every mistake, and no value in it."""
    document = read_yaml(path)
    if isinstance(document, dict) and document.get("tls_server_config", {}) is None:
        document = {key: value for key, value in document.items() if key != "tls_server_config"}
    try:
        found = WebFile.model_validate({} if document is None else document)
    except ValidationError as error:
        raise UserError("\n".join(f"{path}: {_mistake(detail)}" for detail in error.errors())) from None
    tls = found.tls_server_config
    if tls is None:
        return found
    folder = path.parent
    placed = tls.model_copy(
        update={
            "cert_file": folder / tls.cert_file,
            "key_file": folder / tls.key_file,
            "client_ca_file": folder / tls.client_ca_file if tls.client_ca_file else None,
        }
    )
    return found.model_copy(update={"tls_server_config": placed})


def _mistake(detail: ErrorDetails) -> str:
    """`tls_server_config.curve_preferences: no such key, or not supported here`."""
    where = ".".join(str(part)[:MAX_SHOWN] for part in detail["loc"])
    if isinstance(detail["input"], Ambiguous):
        what = "an unquoted word may mean a boolean: write true or false, or quote it"
    elif detail["type"] == "extra_forbidden":
        what = "no such key, or not supported here"
    elif detail["type"] == "missing":
        what = "is needed"
    else:
        what = detail["msg"].removeprefix("Value error, ")
    return f"{where}: {what}" if where else what
