"""The text encoder of models such as CLIP and SigLIP: a tokenizer and a text tower.

Both are read from the model's folder on first use, because most searches are for photos.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from solar.errors import SolarError
from solar.models.hub import repository as hub
from solar.models.hub.library_weights import quiet, read_weights
from solar.nn.backbones.vision_tower import joint_tower

_TOKENIZER, _TOKENIZER_SETTINGS = "tokenizer.json", "tokenizer_config.json"
_BATCH = 64


class TextSide:
    """Texts to unit vectors; as in training, texts are padded to the model's full length.

    The folder has config.json, model.safetensors and tokenizer.json.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __deepcopy__(self, _: dict[int, Any]) -> "TextSide":
        return self  # it does not change

    def describe(self, texts: Sequence[str], device: torch.device) -> Tensor:
        """Texts to (n, dim) float32, unit rows, on the CPU; a SolarError if a file is damaged."""
        rows = []
        with torch.inference_mode():
            for start in range(0, len(texts), _BATCH):
                given = self._tokens(texts[start : start + _BATCH])
                out = self._tower.to(device)(**{k: v.to(device) for k, v in given.items()})
                embeddings = getattr(out, "text_embeds", out.get("pooler_output"))
                rows.append(F.normalize(embeddings.float()).cpu())
        return torch.cat(rows)

    def _tokens(self, texts: Sequence[str]) -> dict[str, Tensor]:
        tokenizer, lower = self._tokenizer
        found = tokenizer.encode_batch([text.lower() if lower else text for text in texts])
        given = {"input_ids": torch.tensor([one.ids for one in found])}
        if self._settings["model_type"] == "clip":  # SigLIP was trained to read its padding
            given["attention_mask"] = torch.tensor([one.attention_mask for one in found])
        return given

    @cached_property
    def _settings(self) -> dict[str, Any]:
        return hub.read_config(self.folder)

    @cached_property
    def _text(self) -> tuple[Any, Any]:
        with quiet():
            return joint_tower(self._settings, "text")

    @cached_property
    def _tower(self) -> Any:
        return read_weights(self.folder, *self._text).eval()

    @cached_property
    def _tokenizer(self) -> tuple[Any, bool]:
        """The tokenizer, which pads and cuts, and whether it expects lower case."""
        from tokenizers import Tokenizer

        file = self.folder / _TOKENIZER
        if not file.is_file():
            raise SolarError(
                f"{self.folder} has no {_TOKENIZER}, which text search needs: download or copy it "
                "from where the model came from."
            )
        try:
            tokenizer = Tokenizer.from_file(str(file))
        except Exception as error:  # the reader knows no other kind
            raise SolarError(f"{file} is not a tokenizer ({error}).") from error
        there = (self.folder / _TOKENIZER_SETTINGS).is_file()
        told = hub.read_config(self.folder, _TOKENIZER_SETTINGS) if there else {}
        text = self._text[1]
        length = text.max_position_embeddings
        token = told.get("pad_token")  # a text, or an object with one
        token = token.get("content") if isinstance(token, Mapping) else token
        padding = None if token is None else tokenizer.token_to_id(token)
        tokenizer.enable_truncation(length)
        tokenizer.enable_padding(
            direction=told.get("padding_side", "right"),
            pad_id=text.pad_token_id if padding is None else padding,
            length=length,
        )
        return tokenizer, bool(told.get("do_lower_case"))
