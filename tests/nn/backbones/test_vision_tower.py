"""The image side of CLIP and SigLIP as a backbone."""

import sys

import pytest
import torch
import torch.nn.functional as F
from support.tiny_joint import SIDE, joint

from solar.errors import SolarError
from solar.nn.backbones.vision_tower import VisionTower, image_settings, is_joint, joint_tower


def tower(name: str) -> VisionTower:
    theirs = joint(name)
    backbone = VisionTower(image_settings(theirs.config.to_dict())).eval()
    kind, config = joint_tower(theirs.config.to_dict(), "vision")
    body = kind(config)
    named = theirs.state_dict()
    named |= {key.removeprefix("vision_model."): value for key, value in named.items()}
    body.load_state_dict({key: named[key] for key in body.state_dict()})
    backbone.take(body)
    return backbone


@pytest.mark.parametrize(("name", "dim"), [("clip", 24), ("siglip", 32)])
def test_an_embedding_stands_in_the_place_of_a_map(name: str, dim: int) -> None:
    backbone, theirs = tower(name), joint(name)
    images = torch.rand(2, 3, SIDE, SIDE)
    with torch.inference_mode():
        own = theirs.get_image_features(images).pooler_output
        torch.testing.assert_close(backbone(images)[:, :, 0, 0], own, rtol=0, atol=1e-5)
        assert backbone(torch.rand(1, 3, 50, 70)).shape == (1, dim, 1, 1)
        backbone.cast(torch.bfloat16)
        half = backbone(images)
    assert (half.dtype, half.shape) == (torch.bfloat16, (2, dim, 1, 1))
    assert F.cosine_similarity(half[:, :, 0, 0].float(), own).min() > 0.999


def test_settings_of_older_files_are_read() -> None:
    old = {
        "model_type": "clip",
        "projection_dim": 20,
        "text_config": {"hidden_size": 96, "num_attention_heads": 8},
        "vision_config": {"hidden_size": 64, "patch_size": 8, "torch_dtype": "float32"},
        "vision_config_dict": {"hidden_size": 24},
        "text_config_dict": None,
    }
    kept = {"hidden_size": 24, "patch_size": 8}
    found = {"model_type": "clip", "projection_dim": 20, "vision_config": kept}
    assert image_settings(old) == found
    _, config = joint_tower(old, "vision")
    assert (config.hidden_size, config.patch_size, config.projection_dim) == (24, 8, 20)
    assert joint_tower(old, "text")[1].hidden_size == 96


def test_what_is_no_joint_model(monkeypatch: pytest.MonkeyPatch) -> None:
    assert is_joint({"model_type": "clip"})
    assert not is_joint({"model_type": "dinov2"})
    with pytest.raises(SolarError, match="NaFlex"):
        is_joint({"model_type": "siglip2"})
    settings = {"model_type": "siglip", "vision_config": {"vision_use_head": False}}
    with pytest.raises(SolarError, match="no photo embedding"):
        VisionTower(settings)
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(SolarError, match=r"pip install \"solar-retrieval\[backbones\]\""):
        VisionTower({"model_type": "siglip", "vision_config": {}})
