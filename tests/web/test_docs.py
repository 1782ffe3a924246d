"""The example of docs/web.md works as it is printed."""

import re
from pathlib import Path

import pytest
from support.web_server import served
from support.web_visits import Home

GUIDE = Path(__file__).parents[2] / "docs" / "web.md"


def test_the_client_of_the_guide_finds_photos(
    home: Home, photo: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    [example] = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    (tmp_path / "query.jpg").write_bytes(photo)
    with served(home / "model.solar") as (_, host, port):
        monkeypatch.chdir(tmp_path)
        exec(compile(example.replace("127.0.0.1:8000", f"{host}:{port}"), str(GUIDE), "exec"), {})
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 5
    found = dict(reversed(line.split()) for line in lines)
    assert len(found) == 5
    assert all(path.endswith(".jpg") and 0 < float(score) < 1.001 for path, score in found.items())
