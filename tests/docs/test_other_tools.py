"""What docs/other-tools.md shows for a tool runs where the tool is installed."""

import contextlib
import io
from pathlib import Path

import numpy as np
import pytest
from support.code_blocks import REPOSITORY
from support.unit_rows import unit_rows

from solar.index import Index
from solar.index.exchange import write_parquet
from solar.storage.types import Photo

pytest.importorskip("pyarrow", reason='pip install "solar-retrieval[parquet]"')

PAGE = REPOSITORY / "docs" / "other-tools.md"
# By heading, for all that need no server.
TOOLS = {
    "pandas": "pandas",
    "Polars": "polars",
    "DuckDB": "duckdb",
    "Qdrant": "qdrant_client",
    "LanceDB": "lancedb",
}


@pytest.mark.parametrize("heading", TOOLS)
def test_a_tool_finds_the_photo_that_is_the_query(
    heading: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip(TOOLS[heading], reason="shown in docs/other-tools.md")
    section = PAGE.read_text(encoding="utf-8").partition(f"\n## {heading}\n")[2]
    code = section.partition("```python\n")[2].partition("```")[0]
    monkeypatch.chdir(tmp_path)
    vectors = unit_rows(0, 9, 16).numpy().astype(np.float32)
    photos = [Photo(f"rome/{number}.jpg", 640, 480) for number in range(9)]
    with Index.create("photos.solar", vectors, photos) as index:
        write_parquet(index, "photos.parquet")
    np.save("query.npy", vectors[3:4])
    with contextlib.redirect_stdout(io.StringIO()) as said:
        exec(compile(code, f"{PAGE.name} ({heading})", "exec"), {})
    assert said.getvalue().splitlines()[0] == "1.000 rome/3.jpg"
