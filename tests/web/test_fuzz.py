"""Requests nobody thought of, from the app's own description: none may end in a 500.

A 503 that says in a sentence that others are at work, and when to come back, is an answer.
"""

import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, seed, settings
from support.drawn_report import drawn_groups
from support.web_visits import Home, Open, upload

from solar.near_duplicates.report import DuplicateReport

EXAMPLES = {"positive": 20, "negative": 10}


def test_no_request_breaks_the_app(
    open_app: Open, home: Home, tmp_path: Path, photo: bytes
) -> None:
    schemathesis = pytest.importorskip("schemathesis", reason='pip install "solar-retrieval[dev]"')
    index = shutil.copytree(home / "model.solar", tmp_path / "model.solar")
    photos = shutil.copytree(home / "photos", tmp_path / "photos")
    names = [photo.relative_to(photos).as_posix() for photo in sorted(photos.rglob("*.jpg"))]
    report = tmp_path / "report.json"
    DuplicateReport(len(names), drawn_groups(names, 30)).write(report)
    client = open_app(
        index=index, photos=photos, duplicates=report, writable=True, hosts=("testserver",)
    )
    known = upload(client, photo)
    description = schemathesis.openapi.from_asgi("/api/v1/openapi.json", client.app)
    operations = [found.ok() for found in description.get_all_operations()]
    assert len(operations) >= 16
    for operation in operations:
        modes = [schemathesis.GenerationMode.POSITIVE]
        if operation.body or operation.query or operation.path_parameters:
            modes.append(schemathesis.GenerationMode.NEGATIVE)  # what the description forbids
        for mode in modes:
            try:
                _send(operation.as_strategy(generation_mode=mode), EXAMPLES[mode.value], known)
            except Exception as error:
                error.add_note(f"{operation.method.upper()} {operation.path} ({mode})")
                raise


def _send(cases: Any, examples: int, known: str) -> None:
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi.checks import positive_data_acceptance

    @seed(0)
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(case=cases)
    def one(case: Any) -> None:
        for name, identity in (("photo", known), ("a", known), ("b", "3")):
            if (
                examples == EXAMPLES["positive"]
                and isinstance(case.body, dict)
                and name in case.body
            ):
                case.body[name] = identity  # there is such a photo, so that more is tried
        # No 5xx, and what comes back is what the description says. Only what is in the photos is
        # not in it: valid requests may be refused.
        case.call_and_validate(
            additional_checks=[_no_server_error],
            excluded_checks=[positive_data_acceptance, not_a_server_error],
        )

    one()


def _no_server_error(_: Any, response: Any, __: Any) -> None:
    if response.status_code == 503:
        assert int(response.headers["retry-after"][0]) >= 1
        assert set(response.json()) == {"error"}
        assert response.json()["error"].endswith(".")
    else:
        assert response.status_code < 500, response.text
