"""TLS, client certificates and passwords on the real daemon, changed while it serves."""

import shutil
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import bcrypt
import httpx
import pytest

from tests.e2e.certificates import Pair, authority, signed
from tests.e2e.daemon import Daemon, eventually, serving, write

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed"),
]
PASSWORD = "right horse"  # noqa: S105 - of a test


@contextmanager
def secured(folder: Path, web: str) -> Iterator[Daemon]:
    """The daemon with a web.yml, waited for."""
    write(folder / "web.yml", web)
    config = write(folder / "eastwest.yml", f"web: {{config_file: '{folder}/web.yml'}}\n")
    with serving("--simulate", "healthy", "--config", str(config)) as daemon:
        yield daemon


def client(authority_file: Path, pair: Pair | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(authority_file))
    if pair is not None:
        context.load_cert_chain(pair.cert, pair.key)
    return context


def served_serial(url: str, context: ssl.SSLContext) -> str:
    host, port = url.removeprefix("https://").split(":")
    with (
        socket.create_connection((host, int(port)), timeout=5) as plain,
        context.wrap_socket(plain, server_hostname=host) as secure,
    ):
        certificate = secure.getpeercert()
    assert certificate is not None
    return str(certificate["serialNumber"])


def test_a_certificate_is_replaced_under_load_without_a_failed_scrape(tmp_path: Path) -> None:
    root = authority(tmp_path, "root")
    first, second = signed(tmp_path, "first", root), signed(tmp_path, "second", root)
    live = Pair(tmp_path / "live.pem", tmp_path / "live.key")
    shutil.copy(first.cert, live.cert)
    shutil.copy(first.key, live.key)
    context = client(root.cert)
    with secured(tmp_path, "tls_server_config: {cert_file: live.pem, key_file: live.key}\n") as daemon:
        before = served_serial(daemon.url, context)
        shutil.copy(second.cert, live.cert)  # for a moment certificate and key do not fit: the old ones stay

        def scraped() -> bool:
            assert httpx.get(daemon.url + "/metrics", verify=context, timeout=5).status_code == httpx.codes.OK
            return served_serial(daemon.url, context) != before

        end = time.monotonic() + 2.5
        while time.monotonic() < end:
            assert not scraped()
        shutil.copy(second.key, live.key)
        eventually(scraped)


def test_only_a_client_with_the_right_certificate_is_served(tmp_path: Path) -> None:
    root, other = authority(tmp_path, "root"), authority(tmp_path, "other")
    server, good, bad = signed(tmp_path, "server", root), signed(tmp_path, "good", root), signed(tmp_path, "bad", other)
    web = (
        f"tls_server_config: {{cert_file: {server.cert.name}, key_file: {server.key.name}, "
        "client_ca_file: root.pem, client_auth_type: RequireAndVerifyClientCert, min_version: TLS13}\n"
    )
    with secured(tmp_path, web) as daemon:
        accepted = httpx.get(daemon.url + "/metrics", verify=client(root.cert, good), timeout=5)
        assert accepted.status_code == httpx.codes.OK
        for context in (client(root.cert, bad), client(root.cert)):
            with pytest.raises(httpx.TransportError):
                httpx.get(daemon.url + "/metrics", verify=context, timeout=5)
        with pytest.raises(httpx.TransportError):
            httpx.get(daemon.url.replace("https", "http") + "/metrics", timeout=5)


def test_wrong_passwords_do_not_starve_scrapes_and_new_ones_need_no_restart(tmp_path: Path) -> None:
    def users(password: str, cost: int) -> str:
        return f"basic_auth_users: {{prom: '{bcrypt.hashpw(password.encode(), bcrypt.gensalt(cost)).decode()}'}}\n"

    def status(password: str | None, page: str = "/metrics") -> int:
        auth = ("prom", password) if password is not None else None
        return httpx.get(daemon.url + page, auth=auth, timeout=5).status_code

    with secured(tmp_path, users(PASSWORD, 12)) as daemon:
        assert status(PASSWORD) == httpx.codes.OK
        for page in ("/", "/metrics", "/healthz", "/api/v1/node", "/nowhere"):
            refused = httpx.get(daemon.url + page, timeout=5)
            assert refused.status_code == httpx.codes.UNAUTHORIZED
            assert refused.headers["www-authenticate"].startswith("Basic ")
        answers = []
        slowest = 0.0
        for number in range(40):
            answers.append(status(f"wrong {number}"))
            began = time.monotonic()
            assert status(PASSWORD) == httpx.codes.OK
            slowest = max(slowest, time.monotonic() - began)
        assert set(answers) == {httpx.codes.UNAUTHORIZED, httpx.codes.TOO_MANY_REQUESTS}
        assert slowest < 0.5
        write(tmp_path / "web.yml", users("new", 4))
        eventually(lambda: status("new") == httpx.codes.OK)
        assert status(PASSWORD) != httpx.codes.OK
