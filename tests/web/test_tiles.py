"""The address of map tiles, and what pages may then load."""

import pytest
from support.web_visits import Open

from solar.errors import SolarError
from solar.web import WebSettings
from solar.web.settings import tile_origin


@pytest.mark.parametrize(
    ("template", "origin"),
    [
        ("https://tiles.example.org/{z}/{x}/{y}.png", "https://tiles.example.org"),
        ("https://a.b:8443/at?y={y}&x={x}&z={z}&key=1", "https://a.b:8443"),
        ("http://localhost:8080/{z}/{x}/{y}", "http://localhost:8080"),
        ("http://127.0.0.1/{z}/{x}/{y}", "http://127.0.0.1"),
    ],
)
def test_the_origin_of_tiles(template: str, origin: str) -> None:
    assert tile_origin(template) == origin


@pytest.mark.parametrize(
    "template",
    [
        "",
        "https://a.b/{z}/{x}.png",
        "https://a.b/{z}/{x}/{y}/{s}.png",  # one server, not several
        "https://{z}.{x}.{y}/a.png",
        "http://a.b/{z}/{x}/{y}.png",
        "http://localhost.a.b/{z}/{x}/{y}.png",
        "ftp://a.b/{z}/{x}/{y}.png",
        "//a.b/{z}/{x}/{y}.png",
        "https://me:secret@a.b/{z}/{x}/{y}.png",
        "https://*/{z}/{x}/{y}.png",
        "https://a.b;script-src https:/{z}/{x}/{y}.png",
        "https://a.b/{z}/{x}/{y}.png\nSet-Cookie: a",
    ],
)
def test_other_addresses_are_refused(template: str) -> None:
    with pytest.raises(SolarError, match="`tiles="):
        WebSettings(tiles=template, tiles_attribution="us")


def pictures_from(open_app: Open, **settings: str) -> list[str]:
    policy = open_app(**settings).get("/").headers["content-security-policy"]
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    assert {rules[name] for name in ("script-src", "style-src", "connect-src")} == {"'self'"}
    return rules["img-src"].split()


def test_pages_load_pictures_from_the_server_of_tiles_alone(open_app: Open) -> None:
    assert pictures_from(open_app) == ["'self'", "data:", "blob:"]
    tiles = {"tiles": "https://a.b/{z}/{x}/{y}.png", "tiles_attribution": "us"}
    assert pictures_from(open_app, **tiles) == ["'self'", "data:", "blob:", "https://a.b"]
