"""Notebooks as they are kept: cells with names, and nothing that running them leaves behind.

As a program it takes the rest out: `python tests/notebooks.py`.
"""

from pathlib import Path

import nbformat

EXAMPLES = Path(__file__).parents[1] / "examples"


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


if __name__ == "__main__":
    for path in EXAMPLES.glob("*.ipynb"):
        path.write_text(cleaned(path.read_text(encoding="utf-8")), encoding="utf-8")
