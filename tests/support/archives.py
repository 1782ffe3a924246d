"""Small archives made up for tests, and a look at what became of them."""

import io
import tarfile
import zipfile
from pathlib import Path


def make_archive(path: Path, members: dict[str, bytes]) -> Path:
    """An archive of the kind its name says."""
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
            for name, content in members.items():
                file.writestr(name, content)
        return path
    with tarfile.open(path, "w:gz" if path.suffix in (".gz", ".tgz") else "w") as file:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            file.addfile(info, io.BytesIO(content))
    return path


def below(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}
