"""Notebooks as they are kept: cells with names, and nothing that running them leaves behind.

As a program it takes the rest out: `python tests/support/notebooks.py`. With `--show` it also runs
them, and writes what they show into `docs/_site/examples`, for the site to show below the cells.
"""

import base64
import json
import os
import sys
import tempfile
from io import BytesIO
from pathlib import Path

import nbclient
import nbformat
from PIL import Image

import solar

REPOSITORY = Path(__file__).parents[2]
EXAMPLES = REPOSITORY / "examples"
SHOWN = REPOSITORY / "docs" / "_site" / "examples"
SECONDS = 600  # a cell, where others use the machine too


def cleaned(text: str) -> str:
    """A notebook's file as it should be: without outputs, counts and what editors note."""
    notebook = nbformat.reads(text, as_version=4)
    for cell in notebook.cells:
        cell.metadata.clear()
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    notebook.metadata = nbformat.from_dict(
        {"kernelspec": kernel, "language_info": {"name": "python"}}
    )
    return nbformat.writes(notebook) + "\n"


def run(notebook: nbformat.NotebookNode, folder: Path) -> nbformat.NotebookNode:
    """Run a notebook in a kernel of its own, offline, and return it with what it has shown.

    Args:
        notebook: Changed in place.
        folder: Where it runs; empty.
    """
    environment = {
        **os.environ,
        "PYTHONPATH": str(Path(solar.__file__).parents[1]),
        "OMP_NUM_THREADS": "1",
        "SOLAR_OFFLINE": "1",
        "SOLAR_CACHE": str(folder / "cache"),
        "TMPDIR": str(folder),  # a kernel that is ended in a hurry leaves its scratch behind
        "IPYTHONDIR": str(folder / "ipython"),
        "MPLCONFIGDIR": str(folder / "matplotlib"),
    }
    place = {"metadata": {"path": str(folder)}}
    client = nbclient.NotebookClient(notebook, timeout=SECONDS, resources=place)
    return client.execute(env=environment)


def write_shown(path: Path) -> None:
    """Run a notebook and write what each of its cells shows, beside the code that showed it."""
    notebook = nbformat.reads(path.read_text(encoding="utf-8"), as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        run(notebook, Path(folder))
    SHOWN.mkdir(exist_ok=True)
    for old in SHOWN.glob(f"{path.stem}-*.webp"):
        old.unlink()
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    content = [{"code": cell.source, "shows": _shown(cell, path.stem)} for cell in cells]
    text = json.dumps(content, ensure_ascii=False, indent=1)
    (SHOWN / f"{path.stem}.json").write_text(text + "\n", encoding="utf-8")


def _shown(cell: nbformat.NotebookNode, stem: str) -> list[dict[str, str]]:
    """What a cell has shown: texts, and pictures, which are written to files."""
    shown = []
    for number, output in enumerate(cell.outputs):
        if "text" in output:
            shown.append({"text": output.text})
        elif "image/png" in output.get("data", {}):
            name = f"{stem}-{cell.id}-{number}.webp"
            picture = Image.open(BytesIO(base64.b64decode(output.data["image/png"])))
            picture.convert("RGB").save(SHOWN / name, quality=80, method=6)
            shown.append({"picture": name})
    return shown


if __name__ == "__main__":
    for path in EXAMPLES.glob("*.ipynb"):
        path.write_text(cleaned(path.read_text(encoding="utf-8")), encoding="utf-8")
        if "--show" in sys.argv[1:]:
            write_shown(path)
