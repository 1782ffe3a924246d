"""Models with a text side: photos and words as `transformers` itself describes them."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image
from support.tiny_joint import SIDE, joint, write_joint

from solar import models
from solar.describe.pipeline import QueryEncoder
from solar.errors import SolarError
from solar.models import RetrievalConfig, RetrievalNet
from solar.models.export import convert
from solar.models.hub.pretrained import from_folder

NAMES = ("clip", "siglip")
# Token numbers as the tokenizer of the test gives them, padded: one text is in capitals, one longer
# than the eight tokens that the models read, one has a word that is not known.
TEXTS = ("A red Door", "the tree and the house and a red door", "a green tree")
TOKENS = {
    "clip": [
        [2, 4, 5, 6, 3, 1, 1, 1],
        [2, 11, 9, 10, 11, 8, 10, 3],
        [2, 4, 0, 9, 3, 1, 1, 1],
    ],
    "siglip": [
        [4, 5, 6, 3, 1, 1, 1, 1],
        [11, 9, 10, 11, 8, 10, 4, 3],
        [4, 0, 9, 3, 1, 1, 1, 1],
    ],
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("joint")
    return {name: write_joint(name, root / name) for name in NAMES}


@pytest.fixture
def copy(folders: dict[str, Path], tmp_path: Path) -> Path:
    return shutil.copytree(folders["siglip"], tmp_path / "siglip")


def photo(height: int = 90, width: int = 130) -> Image.Image:
    pixels = np.random.default_rng(5).integers(0, 256, (height, width, 3), np.uint8)
    return Image.fromarray(pixels)


def prepared(name: str, image: Image.Image, folder: Path) -> torch.Tensor:
    """A photo as the library's own processor gives it."""
    from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil
    from transformers.models.siglip.image_processing_pil_siglip import SiglipImageProcessorPil

    kind: Any = {"clip": CLIPImageProcessorPil, "siglip": SiglipImageProcessorPil}[name]
    images: torch.Tensor = kind.from_pretrained(folder)(image, return_tensors="pt")["pixel_values"]
    return images


@pytest.mark.parametrize("name", NAMES)
def test_photos_and_words_are_those_of_the_library(name: str, folders: dict[str, Path]) -> None:
    net, theirs = models.load(folders[name], device="cpu"), joint(name)
    ids = torch.tensor(TOKENS[name])
    mask = {"attention_mask": (ids != 1).long()} if name == "clip" else {}
    for image in (photo(), photo(50, 37), photo(20, 20)):
        with torch.inference_mode():
            images = prepared(name, image, folders[name])
            own = F.normalize(theirs.get_image_features(images).pooler_output).numpy()
        np.testing.assert_allclose(net.describe(image), own, atol=1e-5)
        # A store and an index take another way.
        np.testing.assert_allclose(QueryEncoder(net)(image), own[0], atol=1e-5)
    with torch.inference_mode():
        words = F.normalize(theirs.get_text_features(input_ids=ids, **mask).pooler_output)
    np.testing.assert_allclose(net.describe_text(TEXTS), words.numpy(), atol=1e-5)
    assert net.config.scales == (1.0,)
    assert net.describe_text([]).shape == (0, net.dim)
    assert net.describe_text(TEXTS[0]).shape == (1, net.dim)


def test_many_texts_are_described_in_batches(folders: dict[str, Path]) -> None:
    net = models.load(folders["clip"], device="cpu")
    rows = net.describe_text(["a red door", "a blue house"] * 50)
    assert rows.shape == (100, net.dim)
    np.testing.assert_allclose(rows[98:], rows[:2], atol=1e-6)


def test_another_size_and_a_box(folders: dict[str, Path]) -> None:
    net = models.load(folders["siglip"], device="cpu")
    assert net.transforms(photo(), size=64).shape == (3, 64, 64)
    assert not np.allclose(net.describe(photo(), size=64), net.describe(photo()))
    box = (10, 20, 90, 80)
    np.testing.assert_array_equal(net.describe(photo(), box=box), net.describe(photo().crop(box)))
    with pytest.raises(SolarError, match="40 × 7"):
        net.describe(photo(7, 40))


def test_a_file_of_ours_keeps_the_image_side_and_says_so(
    folders: dict[str, Path], tmp_path: Path
) -> None:
    net = models.load(folders["clip"], device="cpu")
    with pytest.warns(UserWarning, match="image encoder of .*clip"):
        file = convert(folders["clip"], tmp_path / "net.safetensors")
    again = models.load(file, device="cpu")
    assert isinstance(again, RetrievalNet)
    assert again.config == net.config
    assert models.fingerprint(again) == models.fingerprint(net)
    np.testing.assert_array_equal(again.describe(photo()), net.describe(photo()))
    with pytest.raises(SolarError, match=r"net\.safetensors.*image encoder"):
        again.describe_text("a red door")


def test_preprocessing_may_be_beside_that_of_the_words(copy: Path) -> None:
    file = copy / "preprocessor_config.json"
    told = {"image_processor": json.loads(file.read_text()), "processor_class": "SiglipProcessor"}
    before = from_folder(copy).config
    file.unlink()
    (copy / "processor_config.json").write_text(json.dumps(told))
    assert from_folder(copy).config == before


def test_what_follows_the_embedding_ends_the_words(folders: dict[str, Path]) -> None:
    net = from_folder(folders["clip"])
    assert net.with_adaptation(None).text is not None
    for changed in (
        from_folder(folders["clip"], whitening=True),
        net.with_adaptation(torch.nn.Linear(net.dim, 8)),
    ):
        with pytest.raises(SolarError, match="image encoder"):
            changed.describe_text("a red door")


def test_a_network_without_a_text_side_is_one_sentence() -> None:
    net = RetrievalNet(RetrievalConfig("resnet18"))
    with pytest.raises(SolarError, match=r"text encoder.*hf:google"):
        net.describe_text("a red door")


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        ("tokenizer.json", None, "has no tokenizer.json, which text search needs"),
        ("tokenizer.json", "{", "tokenizer.json is not a tokenizer"),
        ("preprocessor_config.json", None, "does not say how photos are made square"),
        (
            "preprocessor_config.json",
            '{"size": {"height": 36, "width": 48}}',
            "does not say how photos are made square",
        ),
        ("config.json", '{"model_type": "siglip2"}', "NaFlex.* not supported: take one of a fixed"),
    ],
)
def test_a_folder_that_lacks_something(
    copy: Path, file: str, content: str | None, said: str
) -> None:
    if content is None:
        (copy / file).unlink()
    else:
        (copy / file).write_text(content)
    with pytest.raises(SolarError, match=said):
        from_folder(copy).describe_text("a red door")


def test_other_poolings_and_attention_are_refused(folders: dict[str, Path]) -> None:
    with pytest.raises(SolarError, match="pool by cls"):
        from_folder(folders["clip"], pooling="gem")
    with pytest.raises(SolarError, match=r"clip.*attention"):
        from_folder(folders["clip"], attention={4: 4})
    assert from_folder(folders["clip"]).config.size == SIDE
