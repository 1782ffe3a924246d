"""What a stranger may try."""

import io
import json
import struct
import zlib
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from PIL import Image
from support.web_visits import Home, Open, numbers, upload

from solar.errors import SolarError
from solar.images import Roots
from solar.index import Index
from solar.web.photos import original

SVG = b'<?xml version="1.0"?><svg xmlns="http://www.w3.org/2000/svg"><script>1</script></svg>'


def complaint(answer: object, status: int) -> str:
    """The one sentence of a refusal."""
    assert answer.status_code == status, answer.text
    assert list(answer.json()) == ["error"]
    sentence = answer.json()["error"]
    assert sentence[0].isupper()
    assert sentence.endswith(".")
    assert "\n" not in sentence
    return sentence


def send(client: TestClient, data: bytes, name: str = "photo.jpg") -> object:
    return client.post("/api/v1/queries", files={"photo": (name, data, "image/jpeg")})


def huge_png(side: int) -> bytes:
    """A PNG that claims to be huge: its header, and a few compressed zeros."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        checksum = zlib.crc32(kind + content)
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", checksum)

    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    parts = (
        chunk(b"IHDR", header),
        chunk(b"IDAT", zlib.compress(bytes(10**6))),
        chunk(b"IEND", b""),
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def test_a_huge_png_is_refused_by_its_header(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def decode(*_: object) -> None:
        raise AssertionError("it was decoded")

    monkeypatch.setattr(Image.Image, "load", decode)
    assert "50,000 × 50,000" in complaint(send(client, huge_png(50_000)), 413)


@pytest.mark.parametrize(
    ("data", "word"),
    [(b"Dear server, this is text.", "not a photo"), (SVG, "not a photo"), (b"", "empty")],
)
def test_what_is_no_photo_is_refused(client: TestClient, data: bytes, word: str) -> None:
    assert word in complaint(send(client, data), 415)


def test_a_truncated_photo_is_refused(client: TestClient, photo: bytes) -> None:
    assert "cut short" in complaint(send(client, photo[: len(photo) // 2]), 422)


def test_uploads_beyond_the_limit_are_refused(open_app: Open, photo: bytes) -> None:
    client = open_app(max_upload_bytes=10_000)
    assert "too large" in complaint(send(client, photo + bytes(200_000)), 413)


def test_a_long_json_body_is_refused(client: TestClient) -> None:
    body = b'{"photo": "' + b"0" * 100_000 + b'"}'
    assert "too large" in complaint(client.post("/api/v1/search", content=body), 413)

    def pieces():
        yield from (body[:50_000], body[50_000:])

    assert "too large" in complaint(client.post("/api/v1/search", content=pieces()), 413)


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/photos/..%2f..%2fetc%2fpasswd",
        "/api/v1/photos/..%2f..%2fetc%2fpasswd/thumbnail",
        "/api/v1/photos/%2e%2e/photo",
        "/static/..%2f..%2fapp.py",
        "/static/%2e%2e/%2e%2e/app.py",
        "/static/",
        "/..%2f..%2fetc%2fpasswd",
        "//etc/passwd",
    ],
)
def test_no_path_leads_out(client: TestClient, path: str) -> None:
    answer = client.get(path)
    assert answer.status_code in (404, 422)
    assert answer.json()["error"].endswith(".")


def test_names_in_an_index_lead_nowhere_outside_its_folder(
    open_app: Open, home: Home, tmp_path: Path
) -> None:
    (tmp_path / "photos").mkdir()
    outside = tmp_path / "outside.jpg"
    outside.write_bytes((home / "photos" / "landmark-000" / "view-000.jpg").read_bytes())
    names = ["../outside.jpg", str(outside)]
    roots = Roots.at(tmp_path / "photos")
    Index.create(tmp_path / "stranger.solar", [[1, 0, 0, 0], [0, 1, 0, 0]], names, roots=roots)
    client = open_app(index=tmp_path / "stranger.solar", originals=True)
    for number in range(2):
        for path in ("", "/photo", "/original"):
            complaint(client.get(f"/api/v1/photos/{number}{path}"), 404)


def test_files_themselves_are_only_given_out_where_that_was_asked_for(
    open_app: Open, copy: Path, photo: bytes
) -> None:
    names = ("landmark-002/view-001.jpg", "landmark-002/view-000.jpg", "landmark-001/view-000.jpg")
    said, tiff, letter = (copy / "photos" / name for name in names)
    exif = Image.Exif()
    exif[0x010E] = "what the file says"
    Image.open(io.BytesIO(photo)).save(said, exif=exif)
    Image.open(io.BytesIO(photo)).save(tiff, "TIFF")
    letter.write_text("Dear browser")
    for originals in (False, True):
        given = {"photos": copy / "photos", "originals": originals, "token": "abcdefgh"}
        client = open_app(index=copy / "model.solar", **given)
        client.headers["Authorization"] = "Bearer abcdefgh"
        known = numbers(client)
        one = client.get(f"/api/v1/photos/{known[names[0]]}").json()
        assert one["original_is_file"] is originals
        answer = client.get(one["original"])
        assert answer.headers["content-type"] == "image/jpeg"
        assert (answer.content == said.read_bytes()) is originals
        assert (b"what the file says" in answer.content) is originals
        answer = client.get(f"/api/v1/photos/{known[names[1]]}/original")
        kind = "application/octet-stream" if originals else "image/jpeg"
        assert answer.headers["content-type"] == kind  # no browser shows a TIFF
        assert (answer.headers.get("content-disposition") == "attachment") is originals
        refused = client.get(f"/api/v1/photos/{known[names[2]]}/original")
        assert "cannot be shown any more" in complaint(refused, 404)
        mine = client.get(f"/api/v1/photos/{upload(client, said.read_bytes())}").json()
        assert mine["original_is_file"] is False
        assert b"what the file says" not in client.get(mine["original"]).content


def test_a_photo_of_too_many_pixels_only_goes_out_as_a_file(open_app: Open) -> None:
    for originals, status in ((False, 413), (True, 200)):
        client = open_app(max_pixels=10_000, originals=originals)
        assert client.get("/api/v1/photos/0/original").status_code == status
        assert client.get("/api/v1/photos/0/photo").status_code == 200


def test_what_no_jpeg_can_hold_is_told() -> None:
    buffer = io.BytesIO()
    Image.new("L", (66_000, 16)).save(buffer, "PNG")
    with pytest.raises(SolarError, match="JPEG"):
        original(buffer.getvalue(), 10**9)


def test_pictures_carry_no_metadata(client: TestClient, photo: bytes) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # lies on its side
    exif.get_ifd(0x8825)[2] = (48.0, 51.0, 29.0)  # where it was taken
    exif[0x010E] = "a secret"
    buffer = io.BytesIO()
    Image.open(io.BytesIO(photo)).save(buffer, "JPEG", exif=exif, comment=b"a secret")
    identity = upload(client, buffer.getvalue())
    assert client.get(f"/api/v1/photos/{identity}").json()["width"] == 120  # upright
    for path in ("thumbnail?w=160", "photo", "original"):
        content = client.get(f"/api/v1/photos/{identity}/{path}").content
        shown = Image.open(io.BytesIO(content))
        assert not shown.getexif()
        assert set(shown.info) <= {"jfif", "jfif_version", "jfif_unit", "jfif_density"}
        assert b"secret" not in content
        assert shown.width < shown.height


def test_every_answer_tells_browsers_to_be_strict(client: TestClient) -> None:
    for path in ("/", "/healthz", "/api/v1/info", "/api/v1/photos/99", "/none"):
        headers = client.get(path).headers
        policy = headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert "access-control-allow-origin" not in headers


def test_another_name_for_this_machine_is_refused(open_app: Open) -> None:
    client = open_app(hosts=("photos.home",))
    for host in ("127.0.0.1:8000", "localhost", "[::1]:8000", "photos.home", "192.168.1.7"):
        assert client.get("/healthz", headers={"Host": host}).status_code == 200
    for host in ("evil.example", "127.0.0.1.evil.example", "localhost.evil.example", "", "a b"):
        complaint(client.get("/api/v1/info", headers={"Host": host}), 421)


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:9000"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_pages_of_other_sites_are_refused(client: TestClient, headers: dict[str, str]) -> None:
    answer = client.post("/api/v1/search", json={"photo": "0"}, headers=headers)
    complaint(answer, 403)


def test_our_own_page_is_not(client: TestClient) -> None:
    headers = {"Origin": "http://127.0.0.1:8000", "Sec-Fetch-Site": "same-origin"}
    answer = client.post("/api/v1/search", json={"photo": "0"}, headers=headers)
    assert answer.status_code == 200


def test_too_many_requests_are_told_when_to_go_on(open_app: Open) -> None:
    # So slowly that no further request is earned while one is answered.
    client = open_app(rate=0.001)
    asked = {"photo": "0"}
    assert client.post("/api/v1/search", json=asked).status_code == 200
    refused = client.post("/api/v1/search", json=asked)
    assert "Too many requests" in complaint(refused, 429)
    assert int(refused.headers["retry-after"]) >= 1
    assert client.get("/healthz").status_code == 200


def test_nothing_is_told_without_the_token(open_app: Open, photo: bytes) -> None:
    client = open_app(token="open sesame")
    for path in ("/api/v1/info", "/api/v1/photos/0", "/api/v1/photos/0/thumbnail", "/metrics"):
        complaint(client.get(path), 401)
    for given in ("Bearer wrong", "Bearer ", "Basic open sesame", "Bearer open sesame2"):
        complaint(client.get("/api/v1/info", headers={"Authorization": given}), 401)
    complaint(send(client, photo), 401)
    client.headers["Authorization"] = "Bearer open sesame"
    assert client.get("/api/v1/info").json()["settings"]["token"] is True
    assert client.get("/healthz").status_code == 200


def test_signed_pictures_need_no_token_and_open_nothing_else(open_app: Open) -> None:
    client = open_app(token="open sesame")
    headers = {"Authorization": "Bearer open sesame"}
    one = client.get("/api/v1/photos/3", headers=headers).json()
    for address in (one["thumbnail"], one["photo"], one["original"]):
        assert client.get(address).status_code == 200
        complaint(client.get(address.replace("/3/", "/4/")), 401)
        complaint(client.get(address[:-1]), 401)
    complaint(client.get(one["photo"].replace("/3/photo", "/3")), 401)
    complaint(client.get(one["photo"].replace("/3/photo", "/3/original")), 401)


def test_uploads_are_forgotten_before_memory_runs_out(open_app: Open, photo: bytes) -> None:
    client = open_app(query_bytes=3 * len(photo), picture_bytes=50_000)
    identities = [upload(client, photo) for _ in range(5)]
    known = [client.get(f"/api/v1/photos/{one}").status_code for one in identities]
    assert known == [404, 404, 200, 200, 200]
    for number in range(14):
        client.get(f"/api/v1/photos/{number}/thumbnail?w=160")
    lines = client.get("/metrics").text.splitlines()
    numbers = dict(line.split() for line in lines if not line.startswith("#"))
    assert 0 < float(numbers['solar_picture_bytes{index="toy"}']) <= 50_000
    assert float(numbers["solar_upload_bytes"]) <= 3 * len(photo)


def test_attention_is_forgotten_before_memory_runs_out(open_app: Open) -> None:
    client = open_app(attention_bytes=40_000)
    for number in range(4):
        asked = {"photo": str(number), "x": 3, "y": 3}
        assert client.post("/api/v1/attention", json=asked).status_code == 200
    assert client.app.state.service.attention.nbytes <= 40_000


def test_a_failure_of_ours_tells_nothing(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise RuntimeError("secret of the house")

    monkeypatch.setattr(client.app.state.service, "info", fail)
    answer = client.get("/api/v1/info")
    assert "secret" not in complaint(answer, 500)
    assert "content-security-policy" in answer.headers


def test_forms_that_are_none_are_refused(client: TestClient) -> None:
    for sent in ({"content": b"hello"}, {"files": {"other": b"hello"}}):
        answer = client.post("/api/v1/queries", **sent)
        assert answer.status_code == 422
        assert answer.json()["error"].startswith("photo: ")
    broken = {"Content-Type": "multipart/form-data"}
    complaint(client.post("/api/v1/queries", content=b"hello", headers=broken), 400)
    broken = {"Content-Type": "multipart/form-data; boundary=x"}
    complaint(client.post("/api/v1/queries", content=b"hello", headers=broken), 400)


@pytest.mark.parametrize("box", [[], [1], [1, 2, 3], [0, 0, 9, 9, 9]])
def test_a_box_of_other_than_four_numbers_is_refused(client: TestClient, box: list[int]) -> None:
    answer = client.post("/api/v1/search", json={"photo": "0", "box": box})
    assert answer.status_code == 422
    assert answer.json()["error"].startswith("box: list should have at ")


@pytest.mark.parametrize("headers", [{"Host": "["}, {"Origin": "http://["}, {"Host": "[::1"}])
def test_addresses_that_are_none_are_refused(client: TestClient, headers: dict[str, str]) -> None:
    complaint(client.get("/api/v1/info", headers=headers), 400)


def test_no_error_tells_where_things_are(
    client: TestClient, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = [home / "model.solar" / "x", home / "photos" / "a b" / "c.jpg", Path("/etc/passwd")]
    named = ", ".join(map(str, places))
    page = client.app.state.service.page

    def fail(*_: object) -> object:
        raise SolarError(f"There is something wrong with {named}: mend it.")

    def fail_later(asked: object, photo: object, ranking: object) -> object:
        return page(asked, photo, ranking) if ranking.stage == "search" else fail()

    told = "There is something wrong with model.solar/x, photos/a b/c.jpg, passwd: mend it."
    with monkeypatch.context() as patched:
        patched.setattr(client.app.state.service, "page", fail)
        assert complaint(client.post("/api/v1/search", json={"photo": "0"}), 422) == told
    monkeypatch.setattr(client.app.state.service, "page", fail_later)
    asked, headers = {"photo": "0", "rerank": ["alpha"]}, {"Accept": "application/x-ndjson"}
    *_, last = client.post("/api/v1/search", json=asked, headers=headers).text.splitlines()
    assert json.loads(last) == {"error": told}


def test_tokens_cannot_be_guessed_at_full_speed(open_app: Open) -> None:
    client = open_app(token="open sesame", rate=20.0)

    def visit(token: str) -> object:
        return client.get("/api/v1/info", headers={"Authorization": f"Bearer {token}"})

    for _ in range(30):  # the right one costs nothing
        assert visit("open sesame").status_code == 200
    for number in range(10):
        complaint(visit(f"guess {number}"), 401)
    for token in ("guess 11", "open sesame"):  # who guesses does not learn that this is right
        assert "Too many wrong tokens" in complaint(visit(token), 429)
    assert client.get("/healthz").status_code == 200


@pytest.mark.parametrize("token", ["schlüssel-für-à", "klucz-do-łodzi", "鍵鍵鍵鍵鍵鍵鍵鍵"])
def test_tokens_may_have_any_letters(open_app: Open, token: str) -> None:
    client = open_app(token=token)
    headers = {b"Authorization": b"Bearer " + token.encode()}
    assert client.get("/api/v1/info", headers=headers).status_code == 200
    headers = {b"Authorization": b"Bearer " + token.encode()[:-1]}
    complaint(client.get("/api/v1/info", headers=headers), 401)
