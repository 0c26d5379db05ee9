"""TLS, client certificates and passwords on the real server: what is refused, and that renewal costs no scrape."""

import asyncio
import base64
import logging
import shutil
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import bcrypt
import httpx
import pytest

from exporter.model import UserError
from exporter.server import Response, listen, serve
from exporter.web.file import read_web_file
from exporter.web.guard import Guard
from exporter.web.passwords import PENDING, Passwords, Verdict, credentials

PASSWORD = "correct horse"  # noqa: S105 - a test's own
pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="certificates are made with openssl")


def openssl(*arguments: str) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)


def certificate(folder: Path, name: str, issuer: str = "") -> None:
    """`name`.crt and `name`.key for 127.0.0.1, signed by itself or by `issuer`."""
    key, request, made = folder / f"{name}.key", folder / f"{name}.csr", folder / f"{name}.crt"
    subject = ("-subj", f"/CN={name}", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    if not issuer:
        openssl("req", "-x509", *subject, "-keyout", str(key), "-out", str(made), "-days", "2")
        return
    openssl("req", *subject, "-keyout", str(key), "-out", str(request))
    extension = folder / "san.cnf"
    extension.write_text("subjectAltName=IP:127.0.0.1\n")
    signer = ("-CA", str(folder / f"{issuer}.crt"), "-CAkey", str(folder / f"{issuer}.key"), "-CAcreateserial")
    openssl("x509", "-req", "-in", str(request), *signer, "-out", str(made), "-days", "2", "-extfile", str(extension))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two authorities, two servers of the first and a client of each."""
    folder = tmp_path_factory.mktemp("pki")
    for authority in ("ca", "other"):
        certificate(folder, authority)
    for name, issuer in (("server", "ca"), ("renewed", "ca"), ("client", "ca"), ("stranger", "other")):
        certificate(folder, name, issuer)
    return folder


@pytest.fixture
def pki(made: Path, tmp_path: Path) -> Path:
    """A copy, free to be changed."""
    return Path(shutil.copytree(made, tmp_path / "pki"))


@cache
def hashed(password: str, cost: int = 4) -> str:
    return bcrypt.hashpw(password.encode(), bcrypt.gensalt(cost)).decode()


TLS = "tls_server_config:\n  cert_file: server.crt\n  key_file: server.key\n"
CLIENTS = TLS + "  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: ca.crt\n"


def users(cost: int = 4) -> str:
    return f"basic_auth_users:\n  prometheus: {hashed(PASSWORD, cost)}\n"


@dataclass(frozen=True, slots=True)
class Served:
    """A server of one page, and its guard."""

    url: str
    guard: Guard
    file: Path


@contextmanager
def serving(folder: Path, text: str) -> Iterator[Served]:
    """The real server on a thread, guarded by a file of `text`."""
    file = folder / "web.yml"
    file.write_text(text)
    guard = Guard(file)
    listener = listen(("127.0.0.1", 0))
    ready, told = threading.Event(), threading.Event()
    loops: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    async def run() -> None:
        stop = asyncio.Event()
        loops.append((asyncio.get_running_loop(), stop))
        ready.set()
        routes = {path: (lambda _request: Response(b"page\n")) for path in ("/metrics", "/healthz")}
        await serve(routes, listener, stop, guard)
        told.set()

    thread = threading.Thread(target=lambda: asyncio.run(run()))
    thread.start()
    try:
        assert ready.wait(10)
        scheme = "https" if guard.context else "http"
        yield Served(f"{scheme}://127.0.0.1:{listener.getsockname()[1]}", guard, file)
    finally:
        loop, stop = loops[0]
        loop.call_soon_threadsafe(stop.set)
        thread.join(10)
        listener.close()
        guard.close()
    assert told.is_set()


def trusting(folder: Path, client: str = "") -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=folder / "ca.crt")
    if client:
        context.load_cert_chain(folder / f"{client}.crt", folder / f"{client}.key")
    return context


def scrape(served: Served, context: ssl.SSLContext | bool = True, password: str = "", path: str = "/metrics") -> int:
    auth = ("prometheus", password) if password else None
    return httpx.get(served.url + path, verify=context, auth=auth, timeout=10).status_code


def serial(served: Served) -> str:
    port = int(served.url.rsplit(":", 1)[1])
    return ssl.get_server_certificate(("127.0.0.1", port), timeout=10)


def until(what: Callable[[], bool], seconds: float = 10.0) -> None:
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, f"not within {seconds} s"
        threading.Event().wait(0.02)


def test_certificate_is_replaced_under_load_without_a_failed_scrape(pki: Path) -> None:
    with serving(pki, TLS) as served, ThreadPoolExecutor(4) as pool:
        before, stop = serial(served), threading.Event()

        def load() -> list[int]:
            context, seen = trusting(pki), []
            while not stop.is_set():
                seen.append(scrape(served, context))
            return seen

        loads = [pool.submit(load) for _ in range(4)]
        try:
            # As renewals do: the certificate first, for a moment beside the old key; then the key.
            (pki / "renewed.crt").replace(pki / "server.crt")
            served.guard.look()
            assert serial(served) == before
            (pki / "renewed.key").replace(pki / "server.key")
            until(lambda: serial(served) != before)
        finally:
            stop.set()
        statuses = [status for load_of in loads for status in load_of.result()]
    assert len(statuses) > 8
    assert set(statuses) == {200}


def test_only_the_right_client_certificate_is_let_in(pki: Path) -> None:
    with serving(pki, CLIENTS) as served:
        assert scrape(served, trusting(pki, "client")) == 200
        for wrong in ("stranger", ""):
            with pytest.raises(httpx.TransportError):
                scrape(served, trusting(pki, wrong))
        assert scrape(served, trusting(pki, "client")) == 200


def test_client_authority_can_be_replaced_and_the_old_one_is_out(pki: Path) -> None:
    with serving(pki, CLIENTS) as served:
        assert scrape(served, trusting(pki, "client")) == 200
        served.file.write_text(CLIENTS.replace("client_ca_file: ca.crt", "client_ca_file: other.crt"))

        def refused() -> bool:
            try:
                scrape(served, trusting(pki, "client"))
            except httpx.TransportError:
                return True
            return False

        until(refused)
        assert scrape(served, trusting(pki, "stranger")) == 200


def test_right_password_is_let_in_and_wrong_ones_are_not(pki: Path) -> None:
    with serving(pki, TLS + users()) as served:
        context = trusting(pki)
        assert scrape(served, context, PASSWORD) == 200
        assert scrape(served, context, "wrong") == 401
        assert scrape(served, context) == 401
        assert scrape(served, context, path="/healthz") == 401
        assert scrape(served, context, path="/nowhere") == 401
        answer = httpx.get(served.url + "/metrics", verify=context)
        assert answer.headers["www-authenticate"].startswith("Basic ")


def test_password_is_replaced_without_a_restart(pki: Path) -> None:
    with serving(pki, users()) as served:
        assert scrape(served, password=PASSWORD) == 200
        served.file.write_text(f"basic_auth_users:\n  prometheus: {hashed('another')}\n")
        until(lambda: scrape(served, password=PASSWORD) == 401)
        assert scrape(served, password="another") == 200  # noqa: S106 - a test's own


def test_ten_wrong_passwords_a_second_starve_no_scrape(pki: Path) -> None:
    """At cost 12 ten checks a second would be more than two processors' work."""
    with serving(pki, users(12)) as served, ThreadPoolExecutor(8) as pool:
        assert scrape(served, password=PASSWORD) == 200
        began = time.monotonic()
        attacks = [pool.submit(scrape, served, True, f"wrong{n}") for n in range(30)]
        slowest, scrapes = 0.0, 0
        while time.monotonic() < began + 3 or not all(attack.done() for attack in attacks):
            asked = time.monotonic()
            assert scrape(served, password=PASSWORD) == 200
            slowest, scrapes = max(slowest, time.monotonic() - asked), scrapes + 1
        statuses = [attack.result() for attack in attacks]
    assert set(statuses) <= {401, 429}
    assert 429 in statuses
    assert scrapes >= 5
    assert slowest < 2.0


def test_nothing_secret_is_said(pki: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with serving(pki, users()) as served:
        assert scrape(served, password="letmein-5711") == 401  # noqa: S106 - a test's own
        served.file.write_text("basic_auth_users:\n  prometheus: plain-5711\n")
        until(lambda: "not used" in caplog.text)
        assert scrape(served, password=PASSWORD) == 200
    assert "5711" not in caplog.text
    assert hashed(PASSWORD) not in caplog.text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("basic_auth_users:\n  p: secret-5711\n", "basic_auth_users.p: a bcrypt hash is needed"),
        (f"basic_auth_users:\n  p: $2y$31${'a' * 53}\n", "cost from 4 to 15"),
        ("tls_server_config:\n  cert_file: a\n", "tls_server_config.key_file: is needed"),
        ("tls_server_config:\n  cert: secret-5711\n", "tls_server_config.cert: no such key"),
        (TLS + "  min_version: TLS10\n", "min_version"),
        (TLS + "  client_ca_file: ca.crt\n", "needed together"),
        (TLS + "  client_auth_type: RequireAnyClientCert\n", "proves nothing"),
        (TLS + "  cipher_suites: [TLS_RSA_WITH_RC4_128_SHA]\n", "cipher_suites.0"),
        ("rate_limit: {}\n", "rate_limit: no such key, or not supported here"),
        ("http_server_config: {http2: yes}\n", "http2"),
        ("- secret-5711\n", ""),
    ],
)
def test_mistakes_are_named_without_their_values(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "web.yml"
    file.write_text(text)
    with pytest.raises(UserError) as caught:
        read_web_file(file)
    assert said in str(caught.value)
    assert str(file) in str(caught.value)
    assert "5711" not in str(caught.value)


def test_missing_and_mismatched_files_are_named(pki: Path) -> None:
    file = pki / "web.yml"
    file.write_text(TLS.replace("server.key", "client.key"))
    with pytest.raises(UserError, match=r"client\.key: KEY_VALUES_MISMATCH"):
        Guard(file)
    file.write_text(TLS.replace("server.crt", "nowhere.crt"))
    with pytest.raises(UserError, match=r"nowhere\.crt: No such file"):
        Guard(file)


def basic(password: str, user: str = "prometheus") -> bytes:
    return b"Basic " + base64.b64encode(f"{user}:{password}".encode())


@pytest.mark.parametrize(
    "header",
    [b"", b"Basic", b"Bearer abc", b"Basic ????", b"Basic " + base64.b64encode(b"no colon"), basic("x" * 73), b"\xff"],
)
def test_no_credentials_in_hostile_headers(header: bytes) -> None:
    assert credentials(header) is None


def test_checks_are_few_remembered_and_from_each_address_on_its_own_budget() -> None:
    checked: list[bytes] = []

    def check(password: bytes, _hash: bytes) -> bool:
        checked.append(password)
        return password == b"right"

    async def run() -> None:
        now = 0.0
        gate = Passwords({"prometheus": hashed("right")}, lambda: now, check)
        try:
            for _ in range(50):
                assert await gate.decide(basic("same"), "10.0.0.1") is Verdict.DENIED
            assert len(checked) == 1
            verdicts = [await gate.decide(basic(f"guess{n}"), "10.0.0.1") for n in range(10)]
            assert verdicts == [Verdict.DENIED] * 4 + [Verdict.BUSY] * 6
            assert await gate.decide(basic("right"), "10.0.0.2") is Verdict.ALLOWED
            assert await gate.decide(basic("right"), "10.0.0.1") is Verdict.ALLOWED
            now = 1.0
            assert await gate.decide(basic("late"), "10.0.0.1") is Verdict.DENIED
            crowd = [gate.decide(basic("x"), f"10.0.1.{n}") for n in range(PENDING + 4)]
            assert (await asyncio.gather(*crowd)).count(Verdict.BUSY) == 4
            before = len(checked)
            assert await gate.decide(basic("right", "nobody"), "10.0.0.9") is Verdict.DENIED
            assert len(checked) == before + 1
        finally:
            gate.close()

    asyncio.run(run())
