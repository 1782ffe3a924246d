import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from support.boxed import needs_weights
from support.drawn import drawn_checkpoint, drawn_state, relative_error
from support.running import help_of, refused, solar

from solar import weights
from solar.cli import app
from solar.demo import toy
from solar.models import PatchNet, RetrievalConfig, RetrievalNet, zoo

DIM = weights.facts(weights.DEFAULT)["dim"]


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("weights") / "resnet18-solar.pth"
    torch.save(
        drawn_checkpoint(RetrievalNet(RetrievalConfig("resnet18", attention={4: 4, 5: 2}))), path
    )
    return path


@pytest.mark.parametrize("boxed", [False, True])
def test_describe_gives_the_published_descriptor_from_a_published_file(
    golden: dict[str, np.ndarray],
    golden_values: dict[str, list[float]],
    golden_image: Path,
    published: Path,
    tmp_path: Path,
    boxed: bool,
) -> None:
    box = ("--box", ",".join(map(str, golden_values["box"]))) if boxed else ()
    scales = "1,1.4142135623730951,0.7071067811865476"
    arguments = ("--model", published, "--size", 224, "--scales", scales, *box)
    solar("describe", golden_image, *arguments, "-o", tmp_path / "out.npy")
    ours = np.load(tmp_path / "out.npy")
    assert ours.dtype == np.float32
    assert (
        relative_error(ours, golden["resnet18_file_box_multi" if boxed else "resnet18_file_multi"])
        < 2e-4
    )


def test_describe_turns_photos_upright_unless_told_not_to(
    golden_image: Path, published: Path, tmp_path: Path
) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    upright = Image.open(golden_image).convert("RGB")
    upright.transpose(Image.Transpose.ROTATE_90).save(tmp_path / "turned.png", exif=exif)
    upright.save(tmp_path / "upright.png")
    photos = (tmp_path / "upright.png", tmp_path / "turned.png")
    options = ("--model", published, "--size", 96, "--scales", 1, "-o", tmp_path / "out.npy")
    solar("describe", *photos, *options)
    a, b = np.load(tmp_path / "out.npy")
    np.testing.assert_allclose(a, b, atol=1e-6)
    solar("describe", *photos, *options, "--ignore-orientation")
    a, b = np.load(tmp_path / "out.npy")
    assert a @ b < 0.9999


def test_convert_and_describe_with_our_own_format(
    golden: dict[str, np.ndarray], golden_image: Path, published: Path, tmp_path: Path
) -> None:
    solar("convert", published, "-o", tmp_path / "ours.safetensors")
    options = ("--size", 224, "-o", tmp_path / "out.npy")
    solar("describe", golden_image, "--model", tmp_path / "ours.safetensors", *options)
    assert relative_error(np.load(tmp_path / "out.npy"), golden["resnet18_file_multi"]) < 2e-4


def test_export_writes_onnx_without_a_word_from_the_exporter(tmp_path: Path) -> None:
    pytest.importorskip("onnxscript", reason="the extra `export` is not installed")
    done = solar("export", "onnx", "solar-local-345", "-o", tmp_path / "out.onnx")
    assert (tmp_path / "out.onnx").stat().st_size > 2e6
    assert done.stdout == ""
    assert "→" in done.stderr
    assert "Warning" not in done.stderr


def test_export_writes_a_torch_program(tmp_path: Path) -> None:
    solar("export", "torch", "solar-local-345", "-o", tmp_path / "out.pt2")
    program = torch.export.load(tmp_path / "out.pt2").module()
    assert program(torch.rand(3, 1, 32, 32)).shape == (3, 128)


def test_models_lists_names_and_reported_scores() -> None:
    table = solar("models").stdout
    assert "solar-r101" in table
    assert "69.9/47.9" in table


def test_models_leaves_out_parts_of_networks_and_says_so() -> None:
    short, everything = solar("models").stdout, solar("models", "--all").stdout
    left_out = [entry.name for entry in zoo.models() if entry.task in ("backbone", "whitening")]
    assert not [name for name in left_out if name in short]
    assert not [entry.name for entry in zoo.models() if entry.name not in everything]
    assert f"{len(left_out)} more" in short
    assert "more, parts" not in everything
    assert max(map(len, short.splitlines()[:20])) <= 80
    assert left_out[0] in solar("models", "--task", "backbone").stdout


def test_a_downloaded_model_comes_before_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = zoo.find("whiten-r101-gem-gl18")
    (tmp_path / entry.file).write_bytes(b"something")
    monkeypatch.setenv("SOLAR_CACHE", str(tmp_path))
    lines = solar("models").stdout.splitlines()
    [row] = [line for line in lines if line.startswith(entry.name)]
    assert row.rstrip().endswith("downloaded")
    assert lines.index(row) < next(n for n, line in enumerate(lines) if "solar-r101" in line)


def test_models_can_be_read_by_a_program() -> None:
    assert len(json.loads(solar("models", "--json").stdout)) == len(zoo.models())
    entries = json.loads(solar("models", "--task", "patches", "--json").stdout)
    assert {entry["task"] for entry in entries} == {"patches"}
    assert {"name", "dim", "parameters", "trained_on", "reported", "here"} <= set(entries[0])


def test_bundled_models_come_first_with_their_scores_and_show_their_card() -> None:
    lines = solar("models").stdout.splitlines()
    assert lines[0].split() == ["bundled", "task", "dim", "MB", "mAP"]
    known = weights.facts("solar-lite0")
    size, score = known["file"]["bytes"] / 1e6, known["figures"]["landmarks"]["mAP"]
    assert lines[1].startswith("solar-lite0 ")
    assert f"{size:.1f}  landmarks {score:.1f}, buildings" in lines[1]
    card = solar("models", "solar-lite0").stdout
    assert "Known limitations" in card
    assert "<!--" not in card
    assert "not downloaded yet" in solar("models", "solar-r101").stdout


def test_models_say_beside_figures_what_they_cannot_be_compared_with() -> None:
    lines = solar("models").stdout.splitlines()
    [row] = [line for line in lines if line.startswith("solar-r101-gldv2")]
    assert row.split()[-4:] == ["79.7/60.0*", "88.6/76.2*", "by", "hand"]
    assert lines[-1].startswith("* GLDv2-clean shares 36 of 70 ROxf and 38 of 70 RPar query")
    assert "36 of 70 ROxf" in " ".join(solar("models", "solar-r101-gldv2").stdout.split())


@needs_weights
def test_demo_finds_generated_photos_and_those_of_a_folder(tmp_path: Path) -> None:
    toy.write(tmp_path / "mine", landmarks=1, views=3, size=(320, 240), first=41)
    out = solar("demo", tmp_path / "mine", "--landmarks", 2, "--views", 2, "-o", tmp_path).stdout
    assert "4 generated photos of 2 buildings, 2 of each, indexed in" in out
    assert out.count("✓ same building") == 2
    assert out.count("✗ another building") == 1
    assert "mAP" in out
    assert f"3 photos in {tmp_path / 'mine'}" in out
    assert "Same place" in out
    [index] = tmp_path.glob("mine-*/photos.solar")
    assert f"solar serve {index} --open" in out
    assert str(index.parent / "ranking.html") in out
    again = solar("demo", "--landmarks", 2, "--views", 2, "-o", tmp_path).stdout
    assert "4 generated photos of 2 buildings, 2 of each, already indexed" in again
    assert "solar demo ~/Pictures --serve" in again


def test_demo_refuses_a_folder_that_is_not_there_at_once(tmp_path: Path) -> None:
    assert "There is no file or folder" in refused("demo", tmp_path / "typo", "-o", tmp_path)
    assert not list(tmp_path.iterdir())


@needs_weights
def test_every_command_that_describes_photos_does_without_a_models_name(tmp_path: Path) -> None:
    photos = tmp_path / "photos"
    toy.write(photos, landmarks=2, views=2, size=(96, 72))
    one = photos / "landmark-000" / "view-000.jpg"
    solar("describe", one, "-o", tmp_path / "out.npy")
    assert np.load(tmp_path / "out.npy").shape == (1, DIM)
    solar("index", "build", photos, "-o", tmp_path / "photos.solar", fresh=True)
    assert (
        json.loads(solar("index", "info", tmp_path / "photos.solar", "--json").stdout)["model"]
        == "solar-lite0"
    )
    assert json.loads(solar("evaluate", photos, "--json").stdout)["mAP"] > 0
    solar("attention", one, "--at", "20,20", "--shorter-side", 96, "-o", tmp_path / "a.png")
    solar("attention", one, "--patch", "--box", "10,10,74,74", "-o", tmp_path / "p.png")
    assert {"a.png", "p.png", "photos.solar"} <= {path.name for path in tmp_path.iterdir()}


@pytest.mark.parametrize(
    "command",
    [
        (),
        ("describe",),
        ("models",),
        ("convert",),
        ("demo",),
        ("export",),
        ("export", "onnx"),
        ("export", "torch"),
    ],
)
def test_every_command_explains_itself(command: tuple[str, ...]) -> None:
    text = help_of(*command)
    assert "Usage: " in text
    assert not command or "Example: solar" in text


def test_the_commands_of_a_newcomer_come_first_and_each_has_one_short_line() -> None:
    text = solar("--help").stdout.partition("─ Start ")[2]
    rows = [line.strip("│ ").split(maxsplit=1) for line in text.splitlines() if "│ " in line]
    told = {row[0]: row[1] for row in rows if len(row) > 1 and row[0].replace("-", "").isalpha()}
    assert list(told)[:5] == ["demo", "doctor", "index", "search", "serve"]
    assert set(told) == {info.name for info in app.registered_commands + app.registered_groups}
    assert [line for line in told.values() if not line.endswith(".") or len(line) > 64] == []


@pytest.mark.parametrize("command", [(), ("search",), ("index",), ("index", "add")])
def test_help_gives_switches_no_type(command: tuple[str, ...]) -> None:
    text = help_of(*command)
    assert "--help" in text
    assert "<bool>" not in text
    assert "default: no-" not in text


@pytest.mark.parametrize("name", [info.name for info in app.registered_commands])
def test_help_shows_examples_as_they_are_typed(name: str) -> None:
    [info] = [info for info in app.registered_commands if info.name == name]
    assert info.epilog in " ".join(help_of(name).split())


def test_version() -> None:
    assert solar("--version").stdout.startswith("solar 1.")


# Users' mistakes.


def test_a_missing_photo_is_one_sentence_and_leaves_the_old_output(
    published: Path, tmp_path: Path
) -> None:
    (tmp_path / "out.npy").write_bytes(b"old")
    command = ("describe", tmp_path / "no.jpg", "--model", published, "-o", tmp_path / "out.npy")
    done = solar(*command, expect=2)
    assert "no.jpg" in done.stderr
    assert (done.stdout, done.stderr) == ("", refused(*command))
    assert (tmp_path / "out.npy").read_bytes() == b"old"


def test_a_name_that_would_act_on_the_terminal_is_told_in_escapes(tmp_path: Path) -> None:
    odd = tmp_path / "a\n\x1b[31m[/b]\udcff.jpg"
    text = refused("describe", odd, "-o", tmp_path / "out.npy")
    assert rf"{tmp_path}/a\n\x1b[31m[/b]\xff.jpg" in text


def test_results_survive_a_terminal_without_their_characters(
    golden_image: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", "ascii:strict")
    out = tmp_path / "[" / "b]é.png"
    done = solar("match", golden_image, golden_image, "-o", out, fresh=True)
    assert out.is_file()
    assert done.stderr.endswith("[/b]\\xe9.png\n")
    assert "Same place" in done.stdout
    assert "\\u" in solar("models", "solar-r18", fresh=True).stdout  # its card has more than ASCII


def test_a_text_file_is_no_photo(published: Path, tmp_path: Path) -> None:
    (tmp_path / "a.jpg").write_text("not a photo")
    text = refused("describe", tmp_path / "a.jpg", "--model", published, "-o", tmp_path / "out.npy")
    assert "a.jpg" in text


@pytest.mark.parametrize(
    ("option", "value"),
    [("--box", "1,2,3"), ("--box", "900,900,950,950"), ("--scales", "1,zero"), ("--scales", "-1")],
)
def test_a_bad_box_or_scale_is_one_sentence(
    golden_image: Path, published: Path, tmp_path: Path, option: str, value: str
) -> None:
    arguments = ("--model", published, "-o", tmp_path / "o.npy", f"{option}={value}")
    assert option.strip("-") in refused("describe", golden_image, *arguments).lower()


def test_an_output_that_is_no_npy_or_cannot_be_written_is_one_sentence(
    golden_image: Path, published: Path, tmp_path: Path
) -> None:
    arguments = ("describe", golden_image, "--model", published, "--size", 64, "--scales", 1)
    assert ".npy" in refused(*arguments, "-o", tmp_path / "out.txt")
    (tmp_path / "file").touch()
    text = refused(*arguments, "-o", tmp_path / "file" / "out.npy")
    assert "cannot be written" in text
    assert "is a file, not a folder" in text


@pytest.mark.parametrize(("kind", "ending"), [("onnx", ".onnx"), ("torch", ".pt2")])
def test_an_export_with_another_ending_is_one_sentence(
    published: Path, tmp_path: Path, kind: str, ending: str
) -> None:
    assert ending in refused("export", kind, published, "-o", tmp_path / "out.bin")


def test_an_unknown_model_is_one_sentence_with_a_suggestion(
    golden_image: Path, tmp_path: Path
) -> None:
    text = refused("describe", golden_image, "--model", "solar-r100", "-o", tmp_path / "o.npy")
    assert "solar-r101" in text


def test_without_a_network_connection_the_sentence_says_what_to_do(
    golden_image: Path, tmp_path: Path
) -> None:
    text = refused("describe", golden_image, "--model", "solar-r101", "-o", tmp_path / "o.npy")
    assert "SOLAR_OFFLINE" in text


def test_a_patch_model_does_not_describe_photos(golden_image: Path, tmp_path: Path) -> None:
    torch.save(drawn_state(PatchNet(), "local"), tmp_path / "local.pth")
    text = refused(
        "describe", golden_image, "--model", tmp_path / "local.pth", "-o", tmp_path / "o.npy"
    )
    assert "patches" in text


def test_a_file_that_is_no_checkpoint_is_one_sentence(golden_image: Path, tmp_path: Path) -> None:
    text = refused("describe", golden_image, "--model", golden_image, "-o", tmp_path / "o.npy")
    assert "not a checkpoint" in text


def test_an_unknown_task_is_one_sentence() -> None:
    assert "retrieval" in refused("models", "--task", "cooking")
