"""How albums are called unless a person names them."""

from collections import Counter
from collections.abc import Sequence

Folder = tuple[str, ...]
"""The path of a folder in an index, as its parts."""


def album_names(folders: Sequence[Folder]) -> list[str]:
    """A name for each album by the folder of most of its photos, to tell it from the others.

    As much of the end of its path as tells a folder from the others; further albums of the same
    folder are numbered.
    """
    ends = Counter(folder[-n:] for folder in {*folders} for n in range(1, len(folder) + 1))
    seen: Counter[str] = Counter()
    names = []
    for folder in folders:
        lengths = range(1, len(folder) + 1)
        length = next((n for n in lengths if ends[folder[-n:]] == 1), len(folder))
        name = " ".join("/".join(folder[-length:]).replace("_", " ").split()) or "Album"
        seen[name] += 1
        names.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return names
