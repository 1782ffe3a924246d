"""Backbones of `transformers`, small enough for tests, with drawn weights that are all alive."""

from pathlib import Path
from typing import Any

import torch
from torch import nn

_VIT: dict[str, Any] = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
_CONV: dict[str, Any] = {"hidden_sizes": [8, 12, 16, 24], "depths": [1, 1, 1, 1]}
_SWIN: dict[str, Any] = {"embed_dim": 8, "num_heads": [1, 2, 2, 2], "window_size": 4}
SETTINGS: dict[str, dict[str, Any]] = {
    "dinov2": {**_VIT, "image_size": 70, "patch_size": 14},
    "dinov2_with_registers": {**_VIT, "image_size": 70, "patch_size": 14, "num_register_tokens": 2},
    "dinov3_vit": {**_VIT, "intermediate_size": 64, "patch_size": 16, "num_register_tokens": 2},
    "dinov3_convnext": _CONV,
    "convnext": _CONV,
    "convnextv2": _CONV,
    "swin": {**_SWIN, "depths": [1, 2, 1, 1], "image_size": 64},
    "swinv2": {**_SWIN, "depths": [1, 2, 1, 1], "image_size": 64},
    "hiera": {"embed_dim": 8, "depths": [1] * 4, "num_heads": [1, 1, 2, 2], "image_size": [64, 64]},
    "pvt_v2": {**_CONV, "num_attention_heads": [1, 1, 2, 2]},
    "resnet": {**_CONV, "embedding_size": 8},
}


def settings(name: str) -> dict[str, Any]:
    """What the config.json of such a backbone says."""
    return {"model_type": name, **SETTINGS[name]}


def model(name: str) -> Any:
    """The library's backbone, ready to describe."""
    from transformers import CONFIG_MAPPING, AutoBackbone

    return drawn(AutoBackbone.from_config(CONFIG_MAPPING[name].from_dict(settings(name))))


def drawn(net: Any) -> Any:
    """A network with numbers in the place of what starts at zero or one."""
    torch.manual_seed(3)
    for parameter in net.parameters():
        spread = 0.5 if parameter.dim() < 2 else parameter[0].numel() ** -0.5
        nn.init.normal_(parameter, 0.1 if parameter.dim() < 2 else 0.0, spread)
    return net.eval()


def write(net: Any, folder: Path) -> Path:
    """A folder as the hub has it, with the network's settings and weights."""
    from transformers.utils import logging

    logging.disable_progress_bar()
    net.save_pretrained(folder)
    return folder
