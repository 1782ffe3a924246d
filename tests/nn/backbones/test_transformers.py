"""Backbones of `transformers`: their maps are the library's own, with attention in between."""

import sys

import pytest
import torch
from support import tiny_transformers
from support.tiny_transformers import SETTINGS, drawn, settings
from support.whole_maps import forward_with_map

from solar.errors import SolarError
from solar.nn.backbones.transformers import TransformersBackbone, has_class_token

TRANSFORMERS = ("dinov2", "dinov2_with_registers", "dinov3_vit")
# Whose stages run one by one.
HIERARCHICAL = tuple(name for name in SETTINGS if name not in TRANSFORMERS)


def images(backbone: TransformersBackbone, height: int, width: int) -> torch.Tensor:
    fitting = [max(round(side / backbone.grid), 1) * backbone.grid for side in (height, width)]
    return torch.rand(2, 3, *fitting, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("name", [name for name in SETTINGS if name != "hiera"])
def test_the_map_is_the_librarys_own(name: str) -> None:
    body = tiny_transformers.model(name)
    backbone = TransformersBackbone(settings(name)).eval()
    backbone.take(body)
    for size in ((112, 224), (160, 96)):
        batch = images(backbone, *size)
        with torch.inference_mode():
            ours, theirs = backbone(batch), body(batch).feature_maps[-1]
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-5)
        assert ours.shape[1] == backbone.channels
        assert ours.std() > 0.01


def test_hiera_runs_at_any_size_as_its_whole_model_does() -> None:
    """The library's backbone takes one size alone, and leaves out the order of its windows."""
    from transformers import HieraConfig, HieraModel

    model = drawn(HieraModel(HieraConfig.from_dict(settings("hiera")), add_pooling_layer=False))
    body = tiny_transformers.model("hiera")
    body.load_state_dict(model.state_dict(), strict=False)
    backbone = TransformersBackbone(settings("hiera")).eval()
    backbone.take(body)
    for size in ((96, 160), (128, 64)):
        batch = images(backbone, *size)
        with torch.inference_mode():
            tokens = model(batch, interpolate_pos_encoding=True).last_hidden_state
            norm = body.hidden_states_norms["stage4"]
            theirs = norm(tokens).transpose(1, 2).unflatten(2, (size[0] // 32, size[1] // 32))
            torch.testing.assert_close(backbone(batch), theirs, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "strides", "grid", "first"),
    [
        ("dinov2", {4: 14}, 14, 7),
        ("dinov3_vit", {4: 16}, 16, 8),
        ("convnextv2", {2: 4, 3: 8, 4: 16, 5: 32}, 32, 16),
        ("swin", {2: 4, 3: 8, 4: 16, 5: 32}, 1, 16),
        ("resnet", {2: 4, 3: 8, 4: 16, 5: 32}, 1, 0.5),
        ("hiera", {2: 4, 3: 8, 4: 16, 5: 32}, 32, 16),
    ],
)
def test_it_tells_its_strides_and_its_grid(
    name: str, strides: dict[int, int], grid: int, first: float
) -> None:
    backbone = TransformersBackbone(settings(name))
    assert backbone.attention_strides == strides
    assert (backbone.grid, backbone.stride, backbone.first) == (grid, max(strides.values()), first)
    assert backbone.least_side == (grid + 1) // 2


@pytest.mark.parametrize("name", [*HIERARCHICAL, *TRANSFORMERS])
def test_attention_goes_after_every_stage(name: str) -> None:
    places = TransformersBackbone(settings(name)).attention_strides
    assert len(places) == (4 if name in HIERARCHICAL else 1)
    plain = TransformersBackbone(settings(name)).eval()
    backbone = TransformersBackbone(settings(name), dict.fromkeys(places, 2)).eval()
    missing, unexpected = backbone.load_state_dict(plain.state_dict(), strict=False)
    assert not unexpected
    assert {key.split(".")[0] for key in missing} == {f"soa{layer}" for layer in places}
    batch, seen = images(backbone, 128, 160), {}
    with torch.inference_mode():
        untrained, _ = (
            backbone(batch),
            backbone.run(batch, lambda layer, block, x: seen.setdefault(layer, x)),
        )
        torch.testing.assert_close(untrained, plain(batch))  # it starts as the identity
    sizes = {layer: batch.shape[2] // x.shape[2] for layer, x in seen.items()}
    assert sizes == dict(places)


def test_a_class_token_takes_the_place_of_the_map_or_stands_beside_it() -> None:
    plain, only, beside = (
        TransformersBackbone(settings("dinov2"), class_token=use)  # type: ignore[arg-type]
        for use in ("none", "only", "beside")
    )
    body = tiny_transformers.model("dinov2")
    for backbone in (plain, only, beside):
        backbone.eval().take(body)
    batch = images(plain, 70, 98)
    with torch.inference_mode():
        features, token, both = plain(batch), only(batch), beside(batch)
    assert token.shape == (2, 32, 1, 1)
    assert (beside.channels, only.channels) == (64, 32)
    torch.testing.assert_close(both, torch.cat([features, token.expand(-1, -1, 5, 7)], dim=1))


def test_attention_leaves_a_class_token_beside_the_map_alone() -> None:
    backbone = TransformersBackbone(settings("dinov2"), {4: 2}, class_token="beside").eval()
    batch, seen = images(backbone, 70, 98), []
    drawn(backbone.soa4)
    with torch.inference_mode():
        changed = backbone.run(batch, lambda layer, block, x: seen.append(x) or block(x))
        mapped = forward_with_map(backbone.soa4, seen[0])[0]
    torch.testing.assert_close(changed, mapped)
    torch.testing.assert_close(changed[:, 32:], seen[0][:, 32:], rtol=0, atol=0)
    assert (changed[:, :32] - seen[0][:, :32]).abs().max() > 1e-3


def test_frozen_stages_stay_in_evaluation_mode() -> None:
    backbone = TransformersBackbone(settings("dinov3_vit"), {4: 2}).requires_grad_(False)
    backbone.soa4.requires_grad_(True)
    backbone.train()
    assert not any(module.training for module in backbone.encoder.modules())
    assert backbone.soa4.training


def test_mistakes_are_sentences(monkeypatch: pytest.MonkeyPatch) -> None:
    assert has_class_token(settings("dinov2"))
    assert not has_class_token(settings("resnet"))
    with pytest.raises(SolarError, match=r"resnet .*class token"):
        TransformersBackbone(settings("resnet"), class_token="only")
    with pytest.raises(SolarError, match=r"4 .*dinov2.* 5"):
        TransformersBackbone(settings("dinov2"), {5: 2})
    with pytest.raises(SolarError, match="class token"):
        TransformersBackbone(settings("dinov2"), {4: 2}, class_token="only")
    with pytest.raises(SolarError, match=r"'bert'.* beit, .*dinov2"):
        TransformersBackbone({"model_type": "bert"})
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(SolarError, match=r"pip install \"solar-retrieval\[backbones\]\""):
        TransformersBackbone(settings("dinov2"))


def test_in_another_precision_only_what_was_learnt_is_rounded() -> None:
    """Angles of positions that were computed in float32 must not be taken from bfloat16."""
    backbone = TransformersBackbone(settings("dinov3_vit")).eval()
    drawn(backbone)
    batch = images(backbone, 96, 160)
    with torch.inference_mode():
        before = backbone(batch)
        angles = backbone.encoder.body.rope_embeddings.inv_freq.clone()
        backbone.cast(torch.float64)
        after = backbone(batch)
    assert after.dtype == torch.float64
    torch.testing.assert_close(after.float(), before, rtol=0, atol=1e-3)
    kept = backbone.encoder.body.rope_embeddings.inv_freq
    assert kept.dtype == torch.float32
    torch.testing.assert_close(kept, angles, rtol=0, atol=0)
