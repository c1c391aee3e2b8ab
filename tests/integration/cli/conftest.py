"""The command line over a database of the test's own."""

from __future__ import annotations

import pytest

from tests.integration.cli.commands import Commands


@pytest.fixture
def commands(fresh_database: str, monkeypatch: pytest.MonkeyPatch) -> Commands:
    """Return the commands over a migrated database."""
    return Commands(fresh_database, monkeypatch)
