"""Read the pickles that datasets are published as; nothing in them is executed."""

import io
import pickle
import pickletools
from pathlib import Path
from typing import Any

from solar.errors import SolarError
from solar.files import reading


class _PlainUnpickler(pickle.Unpickler):
    """Rebuilds lists, dictionaries, text and numbers only."""

    def find_class(self, module_name: str, global_name: str) -> Any:
        raise pickle.UnpicklingError(f"it asks for {module_name}.{global_name}")

    def persistent_load(self, pid: Any) -> Any:
        raise pickle.UnpicklingError("it refers to another file")


def read_plain_pickle(path: str | Path) -> Any:
    """The content of a pickle of plain data; a SolarError if it is damaged or holds more."""
    with reading(path):
        data = Path(path).read_bytes()
    try:
        _check_memo(data)
        return _PlainUnpickler(io.BytesIO(data), encoding="latin1").load()
    except pickle.UnpicklingError as error:
        raise SolarError(f"{path} is not plain data and was not loaded: {error}.") from error
    except Exception as error:  # damaged bytes make the unpickler fail in any way
        raise SolarError(f"{path} is not a pickle of plain data, or is damaged.") from error


def _check_memo(data: bytes) -> None:
    """Refuse numbers above the file's bytes: the unpickler makes room for the highest at once."""
    for step, number, _ in pickletools.genops(data):
        if step.name in ("PUT", "LONG_BINPUT") and (number or 0) >= len(data):
            raise pickle.UnpicklingError("it numbers more objects than it can hold")
