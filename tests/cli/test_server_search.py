import pytest

from solar.cli.server_search import found_by_server
from solar.client import Client
from solar.errors import SolarError
from solar.search import Hit
from solar.search.verify import VerifySettings


def test_a_server_of_an_earlier_version_tells_less(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Client, "search", lambda *_, **__: [{"name": "a.jpg", "score": 0.5}])
    local = ("like", "unlike", "local_features", "model", "device", "html", "photos", "roots")
    given = dict.fromkeys(local) | {"verify_top": VerifySettings.top, "backend": None}
    hits, known = found_by_server("http://host:8000", [], 1, given)
    assert hits == [Hit("a.jpg", 0.5)]
    assert list(known) == ["a.jpg"]
    with pytest.raises(SolarError, match="does not take `backend=`"):
        found_by_server("http://host:8000", [], 1, given | {"backend": "openvino-int8"})
