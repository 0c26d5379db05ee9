"""web.yml and Authorization headers: strict files, bounded work."""

import asyncio
import base64
from dataclasses import dataclass
from pathlib import Path

import bcrypt
import pytest

from exporter import passwords
from exporter.model import UserError
from exporter.passwords import Passwords
from exporter.web import Web

HASH = bcrypt.hashpw(b"secret", bcrypt.gensalt(4)).decode()


@dataclass
class Clock:
    """Seconds, moved by hand."""

    now: float = 0.0

    def __call__(self) -> float:
        """The time."""
        return self.now


def basic(name: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("tls_server_config: {cert_file: a.pem}", "tls_server_config.key_file: is needed"),
        ("tls_server_config: {cert_file: a.pem, key_file: a.key}", "No such file"),
        ("tls_server_config: {cert_file: a, key_file: b, client_ca_file: c}", "belong together"),
        ("tls_server_config: {cert_file: a, key_file: b, min_version: TLS10}", "min_version"),
        ("tls_server_config: {cert_file: a, key_file: b, insecure: true}", "insecure: no such key"),
        (r'tls_server_config: {cert_file: "a\0secret", key_file: b}', "cert_file: a path is needed"),
        ("basic_auth_users: {prom: !!bool secret}", "1:26: this is no bool"),
        ("basic_auth_users: {prom: secret}", "basic_auth_users.prom: a bcrypt hash is needed"),
        ("basic_auth_users: [prom]", "basic_auth_users: a mapping of keys is needed"),
        ("http_server_config: {http2: true}", "http_server_config: no such key"),
    ],
)
def test_a_mistake_in_web_yml_is_one_line_without_the_secret(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "web.yml"
    file.write_text(text)
    with pytest.raises(UserError) as caught:
        Web(file)
    assert said in str(caught.value)
    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_certificate_that_is_none_is_a_users_mistake(tmp_path: Path) -> None:
    for name in ("a.pem", "a.key"):
        (tmp_path / name).write_text("not a certificate")
    (tmp_path / "web.yml").write_text("tls_server_config: {cert_file: a.pem, key_file: a.key}")
    with pytest.raises(UserError, match=r"tls_server_config: .*a\.pem"):
        Web(tmp_path / "web.yml")


@pytest.mark.parametrize(
    ("header", "status"),
    [
        (basic("prom", "secret"), 200),
        (basic("prom", "secret").replace("Basic", "bAsIc"), 200),
        (basic("prom", "wrong"), 401),
        (basic("prom", ""), 401),
        (basic("nobody", "secret"), 401),
        (basic("nobody", "nobody"), 401),
        (basic("prom", "x" * 200), 401),
        ("", 401),
        ("Basic", 401),
        ("Basic !!!", 401),
        ("Basic cHJvbQ==", 401),
        ("Bearer secret", 401),
        ("Basic " + base64.b64encode(b"prom:\0secret").decode(), 401),
        ("Basic " + base64.b64encode(b"\xff:\xfe").decode(), 401),
    ],
)
def test_who_is_admitted(header: str, status: int) -> None:
    assert asyncio.run(Passwords(lambda: {"prom": HASH}).status(header, "10.0.0.1")) == status


def test_without_users_everybody_is_admitted() -> None:
    assert asyncio.run(Passwords(dict).status("", "10.0.0.1")) == 200


def test_an_address_has_some_tries_and_then_one_a_second_and_others_are_not_held_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tried = []

    def counted(password: bytes, expected: str) -> bool:
        tried.append(password)
        return bcrypt.checkpw(password, expected.encode())

    monkeypatch.setattr(passwords, "_check", counted)
    clock = Clock()
    gate = Passwords(lambda: {"prom": HASH}, clock)

    async def flood() -> list[int]:
        return [await gate.status(basic("prom", f"wrong {number}"), "10.0.0.1") for number in range(30)]

    answers = asyncio.run(flood())
    assert answers == [401] * 10 + [429] * 20
    assert len(tried) == 10
    assert asyncio.run(gate.status(basic("prom", "secret"), "10.0.0.2")) == 200
    clock.now += 1
    assert asyncio.run(gate.status(basic("prom", "wrong"), "10.0.0.1")) == 401
    assert asyncio.run(gate.status(basic("prom", "wrong"), "10.0.0.1")) == 429


def test_a_proven_password_is_not_computed_again_and_a_changed_one_is(monkeypatch: pytest.MonkeyPatch) -> None:
    users = {"prom": HASH}
    gate = Passwords(lambda: users)
    assert asyncio.run(gate.status(basic("prom", "secret"), "a")) == 200
    monkeypatch.setattr(passwords, "_check", lambda _password, _expected: False)
    assert asyncio.run(gate.status(basic("prom", "secret"), "a")) == 200
    users["prom"] = bcrypt.hashpw(b"other", bcrypt.gensalt(4)).decode()
    assert asyncio.run(gate.status(basic("prom", "secret"), "a")) == 401
