"""A network as a folder of the hub's form: settings, weights, preprocessing and a card."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from PIL import Image

from solar import weights
from solar.errors import SolarError
from solar.files import make_folder, replacing
from solar.models import zoo
from solar.models.checkpoint import Model, fingerprint, load, save
from solar.models.hub import repository as hub
from solar.models.retrieval_net import RetrievalNet

# Files of a clone of an empty repository, with a card.
_BESIDE = frozenset({".git", ".gitattributes", hub.CARD})
# Training sets: their names in the zoo, and on cards.
_DATASETS = {
    "COCO": "coco",
    "Google Landmarks v2": "google-landmarks-v2",
    "Google Landmarks 2018": "google-landmarks-2018",
    "retrieval-SfM-120k": "retrieval-sfm-120k",
    "ImageNet": "imagenet-1k",
    "UBC Liberty": "ubc-phototour",
}
_PLAIN = re.compile(r"[A-Za-z][\w./-]*")  # what YAML reads as text without quotes
_FACTS = re.compile(r"<!-- facts -->.*?<!-- /facts -->", re.DOTALL)
_RELATIVE = re.compile(r"\[([^\]]+)\]\((?!https?:)[^)]*\)")


def save_folder(
    model: Model, folder: str | Path, *, half: bool = False, name: str | None = None
) -> Path:
    """Write config.json, model.safetensors, preprocessor_config.json and README.md, the card.

    `load` reads such a folder, here or on the hub, and gives the same network bit for bit. An
    existing card is kept; a new one calls the network `name`, "org/name" on the hub, or as the
    folder. `half` as for `save`.

    Raises:
        SolarError: The folder holds other files or another model, or cannot be written.
    """
    folder = Path(folder)
    make_folder(folder, hub.CONFIG, _BESIDE)
    if (folder / hub.CONFIG).exists():
        found = hub.read_config(folder)
        if not hub.is_ours(found):
            raise SolarError(
                f"{folder} holds another model, {hub.architecture(found)}: choose another folder."
            )
    save(model, folder / hub.WEIGHTS, half=half)
    _write(folder / hub.PREPROCESSOR, _json(_preprocessor(model)))
    if not (folder / hub.CARD).exists():
        _write(folder / hub.CARD, _card(model, name or folder.resolve().name, hosted=bool(name)))
    _write(folder / hub.CONFIG, _json(_config(model)))  # last: it makes the folder a network's
    return folder


def _config(model: Model) -> dict[str, Any]:
    return {
        "architectures": [type(model).__name__],
        "model_type": hub.MODEL_TYPE,
        "task": _task(model),
        "hidden_size": model.dim,
        "settings": model.config.to_dict(),
    }


def _preprocessor(model: Model) -> dict[str, Any]:
    if not isinstance(model, RetrievalNet):  # which standardises its patches itself
        return {"do_convert_rgb": False, "do_normalize": False, "size": {"height": 32, "width": 32}}
    size, square = model.config.size, model.config.square
    shape: dict[str, Any] = {"size": {"longest_edge": size}}
    if square is not None:
        shape = {"size": {"height": size, "width": size}}
        if square.shorter is not None:
            shape = {"do_center_crop": True, "crop_size": shape["size"]}
            shape["size"] = {"shortest_edge": round(square.shorter * size)}
    return {
        "do_convert_rgb": True,
        "do_resize": True,
        **shape,
        "resample": int(Image.Resampling.LANCZOS) if square is None else square.resample,
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_normalize": True,
        "image_mean": list(model.config.mean),
        "image_std": list(model.config.std),
    }


def _card(model: Model, name: str, *, hosted: bool) -> str:
    known = _known(model)
    if known is not None and known.bundled:
        text = _FACTS.sub(_facts(model), weights.card(known.name))
        text = _RELATIVE.sub(r"\1", text)  # links into the repository of solar
    else:
        text = _text(model, name, hosted, known)
    return f"---\n{_head(model, known)}---\n\n{text}"


def _known(model: Model) -> zoo.NamedModel | None:
    try:
        entry = zoo.find(model.source or "")
        same = fingerprint(model) == fingerprint(load(entry.name, device="cpu"))
    except SolarError:
        return None
    return entry if same else None


def _head(model: Model, known: zoo.NamedModel | None) -> str:
    licence = "unknown"
    if known is not None:
        licence = "mit" if known.licence.startswith("MIT") else "other"
    fields: dict[str, str | list[str]] = {
        "library_name": "solar-retrieval",
        "pipeline_tag": "image-feature-extraction",
        "license": licence,
        "tags": ["image-retrieval", "solar", _task(model)],
    }
    if known is not None:
        trained = [slug for told, slug in _DATASETS.items() if told in known.trained_on]
        fields |= {"datasets": trained, "metrics": _metrics(known.reported)}
    if base := _base(model):
        fields["base_model"] = base
    return "".join(f"{key}:{_yaml(value)}\n" for key, value in fields.items() if value)


def _yaml(value: str | list[str]) -> str:
    if isinstance(value, list):
        return "".join(f"\n-{_yaml(one)}" for one in value)
    return f" {value if _PLAIN.fullmatch(value) else json.dumps(value)}"


def _metrics(reported: Mapping[str, Mapping[str, float]]) -> list[str]:
    """The measures of results; the zoo names some by their protocol alone, which means mAP."""
    names = {name for figures in reported.values() for name in figures}
    own = {name for name in names if "@" in name or name == "fpr95"}
    return [*(["map"] if names - own else []), *sorted(own)]


def _base(model: Model) -> str | None:
    for source in (model.source, getattr(model.config, "backbone", None)):
        if hub.is_hub_name(source):
            return hub.split_name(str(source))[0]
    return None


def _text(model: Model, name: str, hosted: bool, known: zoo.NamedModel | None) -> str:
    what = "photos" if isinstance(model, RetrievalNet) else "32×32 patches"
    source = f"hf:{name}" if hosted else name
    told = "Nothing is recorded about its training data, licence and results."
    if known is not None:
        told = f"{known.name}, trained on {known.trained_on}. Licence: {known.licence}."
        told += f" {known.caveat}" if known.caveat else ""
    call = 'model.describe(["a.jpg", "b.jpg"])' if what == "photos" else "model.describe(patches)"
    return f"""# {name}

Descriptors of {what} for instance-level image retrieval and matching, made with solar
(`pip install solar-retrieval`).

{_facts(model)}

## Use

```python
import solar

model = solar.load("{source}")
vectors = {call}  # unit rows
```

## Training

{told}
{_table(known)}"""


def _facts(model: Model) -> str:
    config, layers = model.config, ", ".join(map(str, sorted(model.config.attention)))
    parts = [str(getattr(config, "backbone", "l2net"))]
    parts += [f"second-order attention after layers {layers}"] if layers else []
    if isinstance(model, RetrievalNet):
        parts.append(f"{model.config.pooling} pooling")
        parts += ["whitening"] if model.config.whitening else []
    parameters = sum(parameter.numel() for parameter in model.parameters()) / 1e6
    size = f"; by default up to {model.config.size} px" if isinstance(model, RetrievalNet) else ""
    return (
        f"- {', '.join(parts)}; {parameters:.2f} M parameters\n"
        f"- {model.dim} values per descriptor{size}"
    )


def _table(known: zoo.NamedModel | None) -> str:
    if known is None or not known.reported:
        return ""
    rows = [
        f"| {data} | {measure} | {value:g} |"
        for data, figures in known.reported.items()
        for measure, value in figures.items()
    ]
    head = "| dataset | protocol or measure | percent |\n|---|---|---:|\n"
    return f"\n{head}{chr(10).join(rows)}\n\nSource: {known.source}.\n"


def _task(model: Model) -> str:
    return "retrieval" if isinstance(model, RetrievalNet) else "patches"


def _json(content: Mapping[str, Any]) -> str:
    return json.dumps(content, indent=2) + "\n"


def _write(path: Path, text: str) -> None:
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
