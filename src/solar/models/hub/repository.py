"""Networks on the model hub: fetch a repository, check a folder.

All requests go through `huggingface_hub`, so its cache, its tokens and its environment variables
(`HF_HOME`, `HF_TOKEN`, `HF_ENDPOINT`, `HF_HUB_OFFLINE`) work as they do everywhere else. Only data
is fetched: settings and safetensors, never pickles and never code.
"""

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from solar import __version__
from solar.errors import SolarError, optional
from solar.files import reading
from solar.images.roots import expanded

CONFIG = "config.json"
WEIGHTS = "model.safetensors"
PREPROCESSOR = "preprocessor_config.json"
PROCESSOR = "processor_config.json"
"""The same for newer models of several kinds of input."""

_FIRST = (CONFIG, WEIGHTS)  # a repository that can be used has one of them
_SHARDS = f"{WEIGHTS}.index.json"  # which tensor is in which of several files
_FILES = (
    *(CONFIG, PREPROCESSOR, PROCESSOR, WEIGHTS, _SHARDS, "model-[0-9]*-of-[0-9]*.safetensors"),
    *("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"),
    *("vocab.json", "vocab.txt", "merges.txt", "tokenizer.model", "spiece.model"),
)
_CLIENT = "solar-retrieval"  # sent to the hub as the user agent


def is_hub_name(source: object) -> bool:
    """Whether this names a repository on the hub: `hf:org/name`, `hf:org/name@revision`."""
    return isinstance(source, str) and source.startswith("hf:")


def snapshot(name: str) -> Path:
    """Fetch a repository's settings, weights and tokenizer, unless they are in the cache.

    `name` is `hf:org/name`, `hf://org/name` or `org/name`, each with `@revision` if need be. The
    folder of the cache has model.safetensors (or the files that its index names), and unless it is
    ours config.json and perhaps preprocessor_config.json. A SolarError if a file is missing or
    damaged.
    """
    library = optional("huggingface_hub", "backbones")
    repository, revision = split_name(name)
    with _told_in_a_sentence(repository, revision):
        folder = Path(
            library.snapshot_download(
                repository,
                revision=revision,
                allow_patterns=_FILES,
                local_files_only=_told_to_stay_offline(),
                library_name=_CLIENT,
                library_version=__version__,
                tqdm_class=_bar(),
            )
        )
    for file in sorted(folder.glob("*")):
        _check_content(file)
    _check_complete(folder, repository)
    return folder


def refuse_unfetched(name: str, named_by: object = "The index") -> None:
    """A SolarError if a model of the hub was never fetched: no index may start a download."""
    if not is_hub_name(name):
        return
    repository, revision = split_name(name)
    kept = optional("huggingface_hub", "backbones").try_to_load_from_cache
    with _told_in_a_sentence(repository, revision):
        here = any(isinstance(kept(repository, one, revision=revision), str) for one in _FIRST)
    if not here:
        raise SolarError(
            f"{named_by} names {name}, a model on the hub that is not on this machine: if you "
            f"trust it, download it once with `solar describe PHOTO --model {name}`."
        )


def refuse_moved(name: str) -> None:
    """A SolarError if an index names a model file that does not exist."""
    path = expanded(name)
    is_file = path.is_absolute() or path.suffix in (".safetensors", ".pth", ".pt")
    if is_file and not os.path.exists(path):  # noqa: PTH110 (an untrusted name may hold a NUL)
        raise SolarError(
            f"The model of this index, {path}, is no longer there: put it back, or name its new "
            "place with `model=`."
        )


def read_config(folder: Path, name: str = CONFIG) -> dict[str, Any]:
    """A folder's config.json, or another one; a SolarError if there is none that can be read."""
    with reading(folder / name, "is not a JSON object", ValueError, RecursionError):
        config = json.loads((folder / name).read_text(encoding="utf-8"))
        if not isinstance(config, dict):
            raise ValueError
    return config


def is_ours(file: Path) -> bool:
    """Whether a file is there that `solar.save` has written, which needs no config.json."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(file, framework="numpy") as opened:
            return (opened.metadata() or {}).get("format") == "solar"
    except (SafetensorError, OSError):
        return False  # what is damaged is told where it is read


def architecture(config: Mapping[str, Any]) -> str:
    """The architecture that a config.json names, as part of a sentence."""
    named = config.get("architectures")
    first = named[0] if isinstance(named, list) and named else None
    kind = config.get("model_type") or config.get("architecture")  # the latter is timm's
    if first and kind:
        return f"{first} ({kind})"
    return str(first or kind or "of an architecture that its config.json does not name")


def split_name(name: str) -> tuple[str, str | None]:
    """The repository and the revision, if any, of a name such as hf:org/name@revision."""
    repository, _, revision = name.removeprefix("hf:").removeprefix("//").partition("@")
    return repository, revision or None


def _bar() -> Any:
    """The library's progress bar, on terminals alone."""
    from huggingface_hub.utils.tqdm import tqdm

    theirs: Any = tqdm  # has no types

    class TerminalBar(theirs):  # type: ignore[misc]
        def __init__(self, *args: Any, **settings: Any) -> None:
            super().__init__(*args, **{"disable": None, "leave": False, **settings})

    return TerminalBar


@contextmanager
def _told_in_a_sentence(repository: str, revision: str | None) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # of the library, of its HTTP client (which one varies), of the disk
        raise SolarError(_sentence(error, repository, revision)) from error


def _sentence(error: Exception, repository: str, revision: str | None) -> str:
    from huggingface_hub import constants, errors

    hub, page = constants.ENDPOINT, f"{constants.ENDPOINT}/{repository}"
    status = getattr(getattr(error, "response", None), "status_code", None)
    match error:
        case errors.HFValidationError():
            return f'"{repository}" cannot be the name of a repository: write hf:org/name.'
        case errors.GatedRepoError():
            return (
                f"{repository} is gated: ask for access at {page}, then log in with "
                "`hf auth login` or set HF_TOKEN."
            )
        case errors.RepositoryNotFoundError():
            return (
                f"There is no repository {repository} at {hub}, or it is private: check its name, "
                "or log in with `hf auth login` or set HF_TOKEN."
            )
        case errors.RevisionNotFoundError():
            return (
                f'{repository} has no revision "{revision}": choose a branch or a tag from '
                f"{page}/tree/main."
            )
        case errors.LocalEntryNotFoundError() if _offline(constants):
            return (
                f"{_offline(constants)} is set, and {constants.HF_HUB_CACHE} does not hold all of "
                f"{repository}: unset it to download the rest."
            )
        case errors.LocalEntryNotFoundError():
            reason = _first_line(error.__cause__ or error)
            return (
                f"Could not get {repository} from {hub}: {reason}; check the connection (and "
                "HF_ENDPOINT, if it is set) and try again."
            )
        case errors.EntryNotFoundError():
            file = str(getattr(error, "response").url).rpartition("/")[2]  # noqa: B009 (typing)
            return f"{repository} lists {file}, but {hub} does not have it: try another revision."
        case _ if status in (401, 403):
            return (
                f"{hub} refuses access to {repository}: log in with `hf auth login` or set "
                "HF_TOKEN, to a token that allows it."
            )
        case OSError() if error.errno is not None and error.filename is not None:
            return f"{error.filename} cannot be written: {error.strerror}; see HF_HOME."
        case _:
            reason = _first_line(error)
            return f"The exchange with {hub} about {repository} failed: {reason}; try again later."


def _offline(constants: Any) -> str | None:
    if constants.HF_HUB_OFFLINE:
        return "HF_HUB_OFFLINE"
    return "SOLAR_OFFLINE" if _told_to_stay_offline() else None


def _told_to_stay_offline() -> bool:
    return os.environ.get("SOLAR_OFFLINE", "0") not in ("", "0")


def _first_line(error: BaseException) -> str:
    lines = re.sub(r"^\[Errno -?\d+\]", "", str(error)).strip().splitlines()
    return (lines[0] if lines else type(error).__name__).rstrip(".")


def _check_content(file: Path) -> None:
    """Compare a file of the cache with its hash; the library itself looks at the size alone.

    A snapshot's files are links to contents named by their hash: SHA-256 for large files, git's
    SHA-1 for small ones.
    """
    from solar.download import checked  # brings in http, which a local folder does not need

    if not file.is_symlink():
        return
    content = Path(os.path.normpath(file.parent / file.readlink()))
    if re.fullmatch(r"[0-9a-f]{64}", content.name):
        checked(content, content.name)
    elif re.fullmatch(r"[0-9a-f]{40}", content.name):
        with reading(content):
            held = content.read_bytes()
        if hashlib.sha1(b"blob %d\0" % len(held) + held).hexdigest() != content.name:
            raise SolarError(f"{content} ({file.name}) is damaged: delete it to download it again.")


def _check_complete(folder: Path, repository: str) -> None:
    if is_ours(folder / WEIGHTS):
        return
    if not (folder / CONFIG).is_file():
        raise SolarError(f"{repository} has no {CONFIG}: it holds no model that solar can read.")
    if (folder / WEIGHTS).is_file():
        return
    if not (folder / _SHARDS).is_file():
        raise SolarError(
            f"{repository} has no safetensors, and solar reads no other weights, because they can "
            "run code: look for a revision that has safetensors."
        )
    signs = (ValueError, KeyError, TypeError, AttributeError, RecursionError)
    with reading(folder / _SHARDS, "is not an index of safetensors", *signs):
        index = json.loads((folder / _SHARDS).read_text(encoding="utf-8"))
        needed = {str(file) for file in index["weight_map"].values()}
    here = {file.name for file in folder.iterdir()}  # so that no name leads out of the folder
    if missing := sorted(needed - here):
        raise SolarError(f"{repository} lacks {missing[0]}, which its {_SHARDS} names.")
