"""Lambda environments as the runtime makes them: one fresh module each."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.functions.invoking import CONTRACTS, KEYRING, Lambdas


@pytest.fixture
def lambdas(
    fresh_database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Lambdas]:
    """Yield the functions of one deployment, its tenant and contracts set up."""
    with deployed(fresh_database, tmp_path, monkeypatch) as made:
        made.set_up()
        yield made


@pytest.fixture
def empty_lambdas(
    empty_database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Lambdas]:
    """Yield the functions of a deployment whose database is still empty."""
    with deployed(empty_database, tmp_path, monkeypatch) as made:
        yield made


def deployed(url: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Lambdas:
    contracts = folder / "contracts.toml"
    contracts.write_text(CONTRACTS)
    monkeypatch.setenv("EFFECT_BROKER_DATABASE_URL", url)
    monkeypatch.setenv("EFFECT_BROKER_KEYRING", KEYRING)
    monkeypatch.setenv("EFFECT_BROKER_CONTRACTS", str(contracts))
    return Lambdas()


@pytest.fixture(autouse=True)
def _root_logger() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = handlers, level
