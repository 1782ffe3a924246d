"""The image encoder of models with a text encoder: CLIP and SigLIP, as `transformers` has them."""

from collections.abc import Mapping
from typing import Any, Literal

import torch
from torch import Tensor, nn

from solar.errors import SolarError
from solar.nn.backbones.backbone import Backbone, ToGrid
from solar.nn.backbones.transformers import cleaned, drawing, library

# The library's towers by model type.
_TOWERS = {
    "clip": {"vision": "CLIPVisionModelWithProjection", "text": "CLIPTextModelWithProjection"},
    "siglip": {"vision": "SiglipVisionModel", "text": "SiglipTextModel"},
}


def is_joint(settings: Mapping[str, Any]) -> bool:
    """Whether a config.json is that of a model with an image side and a text side.

    A SolarError for SigLIP 2's NaFlex models, which take patches instead of photos.
    """
    kind = settings.get("model_type")
    if kind == "siglip2":
        raise SolarError(
            "Models of SigLIP 2 for any aspect ratio (NaFlex) are not supported: take one of a "
            "fixed size, such as hf:google/siglip2-base-patch16-224."
        )
    return kind in _TOWERS


def image_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a joint model's config.json about its image side."""
    kept = {name: settings[name] for name in ("model_type", "projection_dim") if name in settings}
    return {**kept, "vision_config": _side(settings, "vision")}


def joint_tower(settings: Mapping[str, Any], side: Literal["vision", "text"]) -> tuple[Any, Any]:
    """The library's class for one side of a joint model, and its configuration."""
    kind = getattr(library(), _TOWERS[str(settings["model_type"])][side])
    shared = {name: settings[name] for name in ("projection_dim",) if name in settings}
    return kind, kind.config_class.from_dict({**_side(settings, side), **shared})


def _side(settings: Mapping[str, Any], side: str) -> dict[str, Any]:
    """The part of a config.json about one side; older files have it twice."""
    parts = (settings.get(name) or {} for name in (f"{side}_config", f"{side}_config_dict"))
    return {key: value for part in parts for key, value in cleaned(part).items()}


class VisionTower(Backbone):
    """Images to the embeddings that a joint model compares with those of texts.

    The embedding is the only location of the map: "cls" pools it. Position embeddings are
    interpolated for images of another size than the model's. A SolarError if the library is
    missing, there is no embedding, or attention is asked for.
    """

    takes_half = True

    def __init__(
        self, settings: Mapping[str, Any], attention: Mapping[int, int] | None = None
    ) -> None:
        self.title = str(settings.get("model_type"))
        kind, config = joint_tower(settings, "vision")
        super().__init__(attention)
        if not getattr(config, "vision_use_head", True):
            raise SolarError("This model has no photo embedding that can be compared with text.")
        with drawing():
            body = kind(config).eval()
        self.stride = config.patch_size
        self.first = self.stride / 2
        self.channels = getattr(config, "projection_dim", config.hidden_size)
        self.cast_stage = ToGrid(1)
        self.encoder = _Embedding(body)
        self.add_stage("encoder", ("cast_stage", "encoder"))

    def take(self, body: nn.Module) -> None:
        """Copy the weights of an image side as the library builds it."""
        self.encoder.body.load_state_dict(body.state_dict())

    def cast(self, dtype: torch.dtype) -> None:
        """Compute in another precision from now on, embeddings included."""
        self.to(dtype)
        self.cast_stage.dtype = dtype


class _Embedding(nn.Module):
    def __init__(self, body: Any) -> None:
        super().__init__()
        self.body = body

    def forward(self, images: Tensor) -> Tensor:
        out = self.body(images, interpolate_pos_encoding=True)
        embeddings: Tensor = getattr(out, "image_embeds", out.get("pooler_output"))
        return embeddings[:, :, None, None]
