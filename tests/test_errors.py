import pytest

from solar.errors import and_more, printable


@pytest.mark.parametrize(
    "text",
    [
        "Größe.jpg",
        "東京 タワー.png",
        "👨‍👩‍👧 family.jpg",
        "[/b] :smile: 100%.jpg",
        "Shot 3\u202fPM.png",
    ],
)
def test_ordinary_names_stay_as_they_are(text: str) -> None:
    assert printable(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\nb.jpg", r"a\nb.jpg"),
        ("\x1b[31mred\x07", r"\x1b[31mred\x07"),
        ("a\r\x9bb", r"a\r\x9bb"),
        (b"caf\xe9.jpg".decode("utf-8", "surrogateescape"), r"caf\xe9.jpg"),
        ("\ud800", r"\ud800"),
        ("gpj.\u202etxt", r"gpj.\u202etxt"),
    ],
)
def test_what_could_act_on_a_terminal_is_shown_as_an_escape(text: str, shown: str) -> None:
    assert printable(text) == shown
    printable(text).encode("utf-8")


@pytest.mark.parametrize(
    ("errors", "told"), [(["b"], "b"), (["b", "a"], "a And 1 more."), ("cba", "a And 2 more.")]
)
def test_the_first_of_some_errors_counts_the_others(errors: list[str], told: str) -> None:
    assert and_more(errors) == told
