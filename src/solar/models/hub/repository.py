"""Networks on the model hub: fetch a repository, check a folder, publish one.

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
CARD = "README.md"
MODEL_TYPE = "solar"
"""`model_type` in the config.json of our networks."""

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
    folder of the cache has config.json, model.safetensors (or the files that its index names), and
    preprocessor_config.json where there is one. A SolarError if a file is missing or damaged.
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


def in_cache(name: str) -> bool:
    """Whether a repository is in the local cache."""
    repository, revision = split_name(name)
    library = optional("huggingface_hub", "backbones")
    with _told_in_a_sentence(repository, revision):
        return isinstance(
            library.try_to_load_from_cache(repository, CONFIG, revision=revision), str
        )


def refuse_unfetched(name: str, named_by: object = "The index") -> None:
    """A SolarError if a model of the hub was never fetched: no index may start a download."""
    if is_hub_name(name) and not in_cache(name):
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


def network_file(folder: Path, config: Mapping[str, Any], name: str) -> Path:
    """The weights in a folder that `save_folder` has written; `name` is for errors.

    A SolarError if they are missing, or config.json was changed after they were written.
    """
    file = folder / WEIGHTS
    if not file.is_file():
        raise SolarError(f"{name} has no {WEIGHTS}: fetch or copy it again.")
    written = _written_settings(file)
    if written is not None and config.get("settings") != written:
        raise SolarError(
            f"{folder / CONFIG} has other settings than {WEIGHTS}: load {WEIGHTS} itself, or write "
            "the folder again."
        )
    return file


def read_config(folder: Path, name: str = CONFIG) -> dict[str, Any]:
    """A folder's config.json, or another one; a SolarError if there is none that can be read."""
    with reading(folder / name, "is not a JSON object", ValueError, RecursionError):
        config = json.loads((folder / name).read_text(encoding="utf-8"))
        if not isinstance(config, dict):
            raise ValueError
    return config


def is_ours(config: Mapping[str, Any]) -> bool:
    """Whether a config.json is that of one of our networks."""
    return config.get("model_type") == MODEL_TYPE


def architecture(config: Mapping[str, Any]) -> str:
    """The architecture that a config.json names, as part of a sentence."""
    named = config.get("architectures")
    first = named[0] if isinstance(named, list) and named else None
    kind = config.get("model_type") or config.get("architecture")  # the latter is timm's
    if first and kind:
        return f"{first} ({kind})"
    return str(first or kind or "of an architecture that its config.json does not name")


def publish(
    folder: Path,
    name: str,
    *,
    revision: str | None = None,
    private: bool | None = None,
    message: str | None = None,
) -> str:
    """Upload a folder to the hub, into a repository that is created if need be.

    An existing card is kept: it may have been edited.

    Args:
        folder: As `save_folder` writes it.
        name: `org/name`, with or without `hf:`.
        revision: An existing branch. Default: "main".
        private: Whether a new repository is private. Default: the owner's settings.
        message: Of the commit.

    Returns:
        The repository's address. A SolarError if the hub refuses or cannot be reached.
    """
    library = optional("huggingface_hub", "backbones")
    repository, revision = split_name(name, revision)
    api = library.HfApi(library_name=_CLIENT, library_version=__version__)
    with _told_in_a_sentence(repository, revision):
        address = str(api.create_repo(repository, private=private, exist_ok=True))
        has_card = api.file_exists(repository, CARD, revision=revision)
        api.upload_folder(
            repo_id=repository,
            folder_path=folder,
            revision=revision,
            commit_message=message or "Upload a network with solar",
            allow_patterns=[CONFIG, WEIGHTS, PREPROCESSOR, *(() if has_card else (CARD,))],
        )
    return address


def split_name(name: str, revision: str | None = None) -> tuple[str, str | None]:
    """The repository and the revision, if any, of a name such as hf:org/name@revision."""
    repository, _, named = name.removeprefix("hf:").removeprefix("//").partition("@")
    return repository, revision or named or None


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
        case errors.OfflineModeIsEnabled():
            return f"HF_HUB_OFFLINE is set: unset it to publish {repository}."
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


def _written_settings(file: Path) -> Any:
    """The settings inside a file of ours; None if it has none that can be read."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(file, framework="numpy") as opened:
            return json.loads((opened.metadata() or {})["config"])
    except (SafetensorError, OSError, KeyError, ValueError):
        return None  # `load` says what is wrong with it
