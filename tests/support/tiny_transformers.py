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


# Models with a text side


_TOWER: dict[str, Any] = {**_VIT, "intermediate_size": 64}
_WORDS = ("a", "red", "door", "blue", "house", "tree", "and", "the")


def joint(name: str) -> Any:
    """The library's model with an image side and a text side: clip or siglip."""
    from transformers import AutoModel, CONFIG_MAPPING

    text = {**_TOWER, "vocab_size": 16, "max_position_embeddings": 8}
    text |= {"bos_token_id": 2, "eos_token_id": 3, "pad_token_id": 1}
    vision = {**_TOWER, "image_size": 36, "patch_size": 8}
    given = {"text_config": text, "vision_config": vision}
    given |= {"projection_dim": 24} if name == "clip" else {}
    return drawn(AutoModel.from_config(CONFIG_MAPPING[name](**given)))


def write_joint(name: str, folder: Path) -> Path:
    """A folder as the hub has it: settings, weights, preprocessing and a tokenizer."""
    import json

    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    write(joint(name), folder)
    special = {"<unk>": 0, "<pad>": 1, "<s>": 2, "</s>": 3}
    words = {word: number for number, word in enumerate(_WORDS, len(special))}
    tokenizer = Tokenizer(models.WordLevel(special | words, "<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    begin = "<s> " if name == "clip" else ""
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{begin}$A </s>", special_tokens=[("<s>", 2), ("</s>", 3)]
    )
    if name == "clip":  # as the published ones: SigLIP 2 leaves it to its settings
        tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.save(str(folder / "tokenizer.json"))
    told = {"pad_token": "<pad>", "do_lower_case": name == "siglip"}
    (folder / "tokenizer_config.json").write_text(json.dumps(told))
    square = {"height": 36, "width": 36}
    size = {"size": {"shortest_edge": 40}, "do_center_crop": True, "crop_size": square}
    size = size if name == "clip" else {"size": square}
    given = {"image_mean": [0.5, 0.4, 0.3], "image_std": [0.2, 0.3, 0.4], "resample": 3}
    (folder / "preprocessor_config.json").write_text(json.dumps(given | size))
    return folder
