from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from effect_broker.domain.errors import LedgerUnavailable
from effect_broker.telemetry.logs import configure_logging, set_level
from tests.guarantees import guarantee

CANARY = "canary-7f3a"


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    stream = io.StringIO()
    configure_logging("DEBUG", stream)
    yield stream
    root.handlers[:], root.level = handlers, level


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_line_is_json_with_the_fields_that_are_on_the_list(log: io.StringIO) -> None:
    logging.getLogger("effect_broker.x").info(
        "effect reserved", extra={"effect_id": "e1", "arguments": CANARY}
    )
    (line,) = lines(log)
    assert line["message"] == "effect reserved"
    assert line["effect_id"] == "e1"
    assert CANARY not in log.getvalue()


def test_libraries_keep_their_template_and_lose_their_arguments(
    log: io.StringIO,
) -> None:
    logging.getLogger("psycopg").warning("Key (%s) already exists", CANARY)
    logging.getLogger("some.library").error(ValueError(CANARY))
    assert [line["message"] for line in lines(log)] == [
        "Key (%s) already exists",
        "ValueError",
    ]


@pytest.mark.parametrize("name", ["httpx2", "mangum.http", "uvicorn.access", "botocore"])
def test_libraries_that_log_urls_and_headers_are_quiet(
    log: io.StringIO, name: str
) -> None:
    logging.getLogger(name).info(f"POST https://target.example/?token={CANARY}")
    assert log.getvalue() == ""


@pytest.mark.parametrize(("level", "count"), [("INFO", 0), ("DEBUG", 1)])
def test_how_a_migration_runs_is_told_to_who_asks_for_it(
    log: io.StringIO, level: str, count: int
) -> None:
    set_level(level)
    logging.getLogger("alembic.runtime.migration").info("Running %s", "upgrade")
    assert len(lines(log)) == count


@guarantee("nothing-in-the-clear")
def test_foreign_exception_is_its_class_and_places_without_its_text(
    log: io.StringIO,
) -> None:
    try:
        try:
            raise KeyError(CANARY)
        except KeyError as cause:
            raise ValueError(CANARY) from cause
    except ValueError:
        logging.getLogger("effect_broker").exception("met a defect")
    (line,) = lines(log)
    assert line["exception"]["class"] == "ValueError"
    assert line["exception"]["after"] == "KeyError"
    assert any("test_logs.py" in place for place in line["exception"]["places"])
    assert CANARY not in log.getvalue()


def test_broker_error_keeps_its_code_and_its_own_text(log: io.StringIO) -> None:
    error = LedgerUnavailable("The ledger cannot be reached.")
    logging.getLogger("effect_broker").error("refused", exc_info=error)
    (line,) = lines(log)
    assert line["exception"]["code"] == "ledger_unavailable"
    assert line["exception"]["text"] == "The ledger cannot be reached."
