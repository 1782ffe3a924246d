import pytest

from solar.errors import SolarError
from solar.storage.milvus.options import TOKEN, Options, parse_address, read_options


@pytest.mark.parametrize(
    ("address", "uri", "collection"),
    [
        ("milvus://db.example:1234/photos", "http://db.example:1234", "photos"),
        ("milvus://db.example/photos", "http://db.example:19530", "photos"),
        ("milvus://db.example/photos?tls=yes", "https://db.example:19530", "photos"),
        ("milvus:///data/my%20photos.db", "/data/my photos.db", "photos"),
        ("milvus:///data/a#b.db?collection=c", "/data/a#b.db", "c"),
        ("milvus://./photos.db", "./photos.db", "photos"),
    ],
)
def test_an_address_says_where_a_collection_is(address: str, uri: str, collection: str) -> None:
    place = parse_address(address)
    assert (place.uri, place.collection) == (uri, collection)


@pytest.mark.parametrize(
    "address",
    [
        "milvus://host",
        "milvus://host/",
        "milvus://host/a/b",
        "milvus://host/1a",
        "milvus://host/a-b",
        "milvus://host:99999/a",
        "milvus://host:port/a",
        "milvus:///photos",
        "milvus://",
        "milvus://host/a?tls=perhaps",
    ],
)
def test_an_address_that_names_nothing_is_one_sentence(address: str) -> None:
    with pytest.raises(SolarError, match=r"^[^.]*(\.db)?\.$"):
        parse_address(address)


def test_secrets_are_read_and_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TOKEN, "from:environment")
    assert parse_address("milvus://host/a").token == "from:environment"
    place = parse_address("milvus://me:se%40cret@host/a")
    assert place.token == "me:se@cret"
    assert "se@cret" not in f"{place} {place!r}"
    assert "se%40cret" not in f"{place} {place!r}"


def test_options_of_an_address_become_numbers_and_parameters() -> None:
    place = parse_address(
        "milvus://h/a?index=hnsw&M=8&ef=99&shards=3&consistency=bounded&timeout=2"
    )
    options = read_options(place.options)
    assert options == Options(
        "HNSW", {"M": 8}, {"ef": 99}, shards=3, consistency="Bounded", timeout=2.0
    )


@pytest.mark.parametrize(
    "given",
    [
        {"shard": "2"},
        {"shards": "many"},
        {"shards": 0},
        {"timeout": "-1"},
        {"consistency": "perfect"},
        {"partition": "country"},
        {"build": "x"},
    ],
)
def test_an_option_that_makes_no_sense_is_one_sentence(given: dict[str, object]) -> None:
    with pytest.raises(SolarError, match=r"\.$"):
        read_options(given)


def test_who_opens_a_collection_may_read_it_otherwise_but_not_remake_it() -> None:
    stored = Options("HNSW", {"M": 8}, {"ef": 64}, shards=4)
    asked = {"consistency": "Bounded", "ef": "200", "shards": "1", "index": "FLAT"}
    assert stored.reading(asked) == Options(
        "HNSW", {"M": 8}, {"ef": 200}, shards=4, consistency="Bounded"
    )


def test_a_collection_does_not_remember_how_patient_its_maker_was() -> None:
    made = Options("HNSW", {"M": 8}, shards=2, timeout=0.1, retries=0, wait=1)
    assert Options(**made.remembered()) == Options("HNSW", {"M": 8}, shards=2)
