"""The model hub's three methods, which all networks have."""

import re
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

from solar.errors import SolarError
from solar.models.hub import repository as hub

# "org/name", and no file that is missing.
_REPOSITORY = re.compile(r"\w[\w.-]*/\w[\w.-]*(?<!\.safetensors)(?<!\.pth)")


class HubMixin:
    """Loading and saving as on the model hub; a base class of networks."""

    @classmethod
    def from_pretrained(
        cls, source: str | Path, *, revision: str | None = None, device: Any = None
    ) -> Self:
        """Load a network of this class as `solar.load` does; else a SolarError.

        `source` may also be "org/name" for a repository on the hub, if there is no such path, and
        `revision` a branch, a tag or a commit of it.
        """
        name = str(source)
        if isinstance(source, str) and _REPOSITORY.fullmatch(name) and not Path(name).exists():
            name = f"hf:{name}"
        if revision is not None:
            if not hub.is_hub_name(name):
                raise SolarError(f"{source} is not on the hub, and has no revisions.")
            name = f"hf:{hub.split_name(name)[0]}@{revision}"
        model = _package().load(name, device=device)
        if not isinstance(model, cls):
            raise SolarError(f"{source} holds a {type(model).__name__}, not a {cls.__name__}.")
        return model

    def save_pretrained(self, folder: str | Path, *, half: bool = False) -> Path:
        """Write a folder as the hub has it, which `solar.load` reads; see `save_folder`."""
        written: Path = _package().save_folder(self, folder, half=half)
        return written

    def push_to_hub(
        self,
        name: str,
        *,
        revision: str | None = None,
        private: bool | None = None,
        message: str | None = None,
        half: bool = False,
    ) -> str:
        """Upload the network to a repository "org/name" on the hub, created if need be.

        See `solar.models.hub.repository.publish`, and for `half` `solar.save`.

        Returns:
            The repository's address.
        """
        repository = hub.split_name(name)[0]
        with TemporaryDirectory(prefix="solar-") as folder:
            _package().save_folder(self, folder, half=half, name=repository)
            return hub.publish(
                Path(folder), name, revision=revision, private=private, message=message
            )


def _package() -> Any:
    """`solar.models`, imported late: it imports the classes that inherit from here."""
    return import_module("solar.models")
