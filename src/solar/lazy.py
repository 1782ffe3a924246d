"""Names that a package offers without importing them: each is looked up when it is first used.

The names stand once, in the block that type checkers and documentation tools read::

    if TYPE_CHECKING:
        from solar.models import load as load
    else:
        __getattr__, __dir__, __all__ = lazy_exports(__spec__)
"""

import re
from collections.abc import Callable
from importlib import import_module
from importlib.machinery import ModuleSpec
from typing import Any

# `load as load`, which tells type checkers as well that the name is offered to others.
_EXPORT = re.compile(r"^    from (\S+) import (\w+) as \2$", re.MULTILINE)


def lazy_exports(
    spec: ModuleSpec,
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """The `__getattr__`, `__dir__` and `__all__` of a package, from the imports in its source."""
    source = spec.loader.get_source(spec.name)  # type: ignore[union-attr]
    homes = {name: home for home, name in _EXPORT.findall(source)}
    names = sorted(homes)

    def __getattr__(name: str) -> Any:  # noqa: N807
        if name in homes:
            return getattr(import_module(homes[name]), name)
        raise AttributeError(f"module {spec.name!r} has no attribute {name!r}")

    return __getattr__, lambda: names, names
