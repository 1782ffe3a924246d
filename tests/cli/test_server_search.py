import pytest

from solar.cli.server_search import found_by_server
from solar.client import Client
from solar.errors import SolarError
from solar.ranking.verify import VerifySettings
from solar.storage.types import Hit

FOUND = {"name": "a.jpg", "score": 0.5, "inliers": 30, "probability": None, "threshold": 12}


def test_options_of_this_machine_are_refused_for_a_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Client, "search", lambda *_, **__: [FOUND])
    local = ("like", "unlike", "local", "model", "device", "html", "photos", "root")
    given = dict.fromkeys(local) | {"verify_top": VerifySettings.top, "backend": "torch"}
    hits, known = found_by_server("http://host:8000", [], 1, given)
    assert hits == [Hit("a.jpg", 0.5, inliers=30, threshold=12)]
    assert list(known) == ["a.jpg"]
    with pytest.raises(SolarError, match="--backend"):
        found_by_server("http://host:8000", [], 1, given | {"backend": "openvino-int8"})
