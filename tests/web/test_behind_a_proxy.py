"""The web app behind nginx and Caddy: TLS, a sub-path, and who the visitor is."""

import http.client
import json
import os
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from support.web_browser import Visit, finished, until
from support.web_browser_fixtures import served

pytest_plugins = ["support.web_browser_fixtures"]

DEPLOY = Path(__file__).parents[2] / "deploy"
PACKAGES = {"nginx": "nginx-light", "caddy": "caddy"}


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with a key and a certificate for `localhost` that nobody else has signed."""
    if not shutil.which("openssl"):
        pytest.skip("There is no openssl to make a certificate with: apt-get install openssl.")
    file = tmp_path_factory.mktemp("tls") / "both.pem"
    request = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost"
    names = ("-addext", "subjectAltName=DNS:localhost", "-keyout", file, "-out", file)
    subprocess.run([*request.split(), *names], check=True, capture_output=True)
    return file


@pytest.fixture(scope="module", params=PACKAGES)
def proxy(request: pytest.FixtureRequest) -> str:
    """The program in front of the app."""
    if not shutil.which(request.param):
        pytest.skip(f"There is no {request.param}: apt-get install {PACKAGES[request.param]}.")
    return request.param


# Each proxy has an app of its own, whose visitors have asked for nothing yet.
@pytest.fixture(scope="module")
def inside(collection: Path, proxy: str) -> Iterator[str]:
    """The address of the app itself, which only the proxy is to know."""
    options = ("--root-path", "/photos", "--trusted-proxy", "127.0.0.1", "--rate", 2)
    with served(collection / "small.solar", collection / "other.solar", *options) as address:
        yield address


@pytest.fixture(scope="module")
def proxied(
    proxy: str, inside: str, certificate: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """The address of the app behind a proxy that is configured as in `deploy/`."""
    home = tmp_path_factory.mktemp(proxy)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    start = {"nginx": nginx, "caddy": caddy}[proxy]
    command = start(home, port, urlsplit(inside).netloc, certificate)
    surroundings = os.environ | {"XDG_DATA_HOME": str(home), "XDG_CONFIG_HOME": str(home)}
    with (home / "log").open("wb") as log:
        process = subprocess.Popen(command, stderr=log, env=surroundings)
        try:
            _wait_for(port, process)
            yield f"https://localhost:{port}/photos/"
        finally:
            process.terminate()
            process.wait(10)


def nginx(home: Path, port: int, app: str, certificate: Path) -> list[object]:
    """Writes its configuration; returns the command that starts it."""
    site = configured(
        "nginx.conf",
        {
            "listen 443 ssl": f"listen 127.0.0.1:{port} ssl",
            "server_name example.org": "server_name localhost",
            "/etc/ssl/example.org.pem": str(certificate),
            "/etc/ssl/example.org.key": str(certificate),
            "127.0.0.1:8000": app,
        },
    )
    paths = "".join(
        f"{one}_temp_path {home / one};\n"
        for one in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    file = home / "nginx.conf"
    file.write_text(
        f"daemon off;\npid {home / 'pid'};\nevents {{}}\n"
        f"http {{\naccess_log off;\n{paths}{site}}}\n"
    )
    return ["nginx", "-p", home, "-e", "stderr", "-c", file]


def caddy(home: Path, port: int, app: str, certificate: Path) -> list[object]:
    """Writes its configuration; returns the command that starts it."""
    own = f"https://localhost:{port} {{\n\tbind 127.0.0.1\n\ttls {certificate} {certificate}"
    options = "\tadmin off\n\tauto_https disable_redirects\n\tservers {"
    changes = {"\tservers {": options, "example.org {": own, "127.0.0.1:8000": app}
    file = home / "Caddyfile"
    file.write_text(configured("Caddyfile", changes))
    return ["caddy", "run", "--config", file]


def configured(name: str, changes: Mapping[str, str]) -> str:
    """A file of `deploy/`, with the addresses and names of a test."""
    site = (DEPLOY / name).read_text()
    for documented, here in changes.items():
        assert documented in site
        site = site.replace(documented, here)
    return site


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + 20
    while time.monotonic() < end and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.05)  # there is no event to wait for: it is another process
    raise RuntimeError("the proxy did not start")


def ask(
    address: str, certificate: Path, method: str, path: str, body: str = "", claim: str = ""
) -> http.client.HTTPResponse:
    site = urlsplit(address)
    trusted = ssl.create_default_context(cafile=str(certificate))
    connection = (
        http.client.HTTPSConnection(site.netloc, timeout=30, context=trusted)
        if site.scheme == "https"
        else http.client.HTTPConnection(site.netloc, timeout=30)
    )
    headers = {"Content-Type": "application/json"} | ({"X-Forwarded-For": claim} if claim else {})
    connection.request(method, path, body or None, headers)
    return connection.getresponse()


def test_the_page_works_below_a_path_with_tls(proxy: str, proxied: str, visit: Visit) -> None:
    page = visit(proxied.removesuffix("/"), ignore_https_errors=True)
    page.locator(".browse .card").first.wait_for()
    assert page.url == proxied
    page.goto(f"{proxied}#/?q=4")
    finished(page)
    pictures = page.locator(".card img").evaluate_all("all => all.map(one => one.src)")
    assert pictures
    assert all(picture.startswith(f"{proxied}api/v1/photos/") for picture in pictures)
    page.locator(".card-main").first.click()
    page.locator(".viewer-photo[src*='/photo?']").wait_for()
    links = page.locator(".viewer-files a").evaluate_all("all => all.map(one => one.href)")
    assert all(link.startswith(f"{proxied}api/v1/photos/") for link in links)
    page.shoot(f"behind-{proxy}")

    page.goto(proxied)
    page.get_by_label("Index", exact=True).select_option("other")
    page.wait_for_url(f"{proxied}indexes/other/#/")
    picture = page.locator(".browse .card img").first
    picture.wait_for()
    assert picture.evaluate("one => one.src").startswith(f"{proxied}indexes/other/api/v1/photos/")
    until(page, "() => document.querySelector('.browse .card img').naturalWidth > 0")


def test_programs_find_everything_below_the_path(proxied: str, certificate: Path) -> None:
    assert ask(proxied, certificate, "HEAD", "/photos/").status == 200
    health = ask(proxied, certificate, "GET", "/photos/healthz")
    assert health.status == 200
    # Above the path, the proxy answers; Caddy does so with 200 and nothing else.
    assert ask(proxied, certificate, "GET", "/healthz").read() != health.read()
    described = json.load(ask(proxied, certificate, "GET", "/photos/api/v1/openapi.json"))
    assert described["servers"] == [{"url": "/photos"}]


def test_the_rate_is_of_the_visitor_and_nobody_can_claim_to_be_many(
    proxied: str, inside: str, certificate: Path
) -> None:
    path, wrong = "/photos/api/v1/search", "{}"
    claims = [f"203.0.113.{n}" for n in range(200)]
    through: list[int] = []
    while 429 not in through and len(through) < len(claims):  # later ones may be let in again
        through.append(ask(proxied, certificate, "POST", path, wrong, claims[len(through)]).status)
    assert (through[0], through[-1]) == (422, 429)
    # The proxy itself, which this is to the app, is believed.
    asked = claims[: max(40, len(through))]
    direct = [ask(inside, certificate, "POST", path, wrong, claim).status for claim in asked]
    assert set(direct) == {422}
