"""CLIP and SigLIP, small enough for tests, with drawn weights and a tokenizer of a few words."""

import json
from pathlib import Path
from typing import Any

from support.tiny_transformers import drawn, write

SIDE = 36  # which is no multiple of a patch, as for some published models
_TOWER: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
}
_SPECIAL = ("<unk>", "<pad>", "<s>", "</s>")
_WORDS = (*_SPECIAL, "a", "red", "door", "blue", "house", "tree", "and", "the")


def joint(name: str) -> Any:
    """The library's model with an image side and a text side: clip or siglip."""
    from transformers import CONFIG_MAPPING, AutoModel

    special = {"pad_token_id": 1, "bos_token_id": 2, "eos_token_id": 3}
    config = CONFIG_MAPPING[name](
        text_config={**_TOWER, "vocab_size": 16, "max_position_embeddings": 8, **special},
        vision_config={**_TOWER, "image_size": SIDE, "patch_size": 8},
        **({"projection_dim": 24} if name == "clip" else {}),
    )
    return drawn(AutoModel.from_config(config))


def write_joint(name: str, folder: Path) -> Path:
    """A folder as the hub has it: settings, weights, preprocessing and a tokenizer."""
    write(joint(name), folder)
    square = {"height": SIDE, "width": SIDE}
    size = {"size": {"shortest_edge": 40}, "do_center_crop": True, "crop_size": square}
    if name == "siglip":
        size = {"size": square}
    given = {"image_mean": [0.5, 0.4, 0.3], "image_std": [0.2, 0.3, 0.4], "resample": 3, **size}
    (folder / "preprocessor_config.json").write_text(json.dumps(given))
    _tokenizer(begins=name == "clip").save(str(folder / "tokenizer.json"))
    told = {"pad_token": "<pad>" if name == "clip" else {"content": "<pad>"}, "do_lower_case": True}
    (folder / "tokenizer_config.json").write_text(json.dumps(told))
    return folder


def _tokenizer(*, begins: bool) -> Any:
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    words = {word: number for number, word in enumerate(_WORDS)}
    tokenizer = Tokenizer(models.WordLevel(words, "<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>" if begins else "$A </s>", special_tokens=[("<s>", 2), ("</s>", 3)]
    )
    return tokenizer
