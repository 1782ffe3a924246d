import io
import os
from pathlib import Path

import pytest
from PIL import Image

from solar.near_duplicates.small_pictures import small_pictures


def test_photos_of_a_shard_are_in_memory_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    file = io.BytesIO()
    Image.new("RGB", (40, 30), "teal").save(file, "PNG")
    held, most = 0, 0

    class ReadPhoto(bytes):
        def __del__(self) -> None:
            nonlocal held
            held -= 1

    def find(name: str) -> bytes:
        nonlocal held, most
        held += 1
        most = max(most, held)
        return ReadPhoto(file.getvalue())

    found = small_pictures([f"{number}.png" for number in range(40)], find, tmp_path)
    assert {tuple(size) for size in found.sizes.tolist()} == {(40, 30)}
    assert most < 10
