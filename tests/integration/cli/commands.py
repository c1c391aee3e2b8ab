"""Runs the command line in this process, against one database."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from effect_broker.surfaces.cli.app import app
from tests.integration.broker.world import KEYRING


@dataclass
class Commands:
    """The commands as an operator types them; `lines` reads what `--json` prints."""

    url: str
    monkeypatch: pytest.MonkeyPatch

    def __post_init__(self) -> None:
        self.monkeypatch.setenv("EFFECT_BROKER_DATABASE_URL", self.url)
        self.monkeypatch.setenv("EFFECT_BROKER_KEYRING", KEYRING)
        self.monkeypatch.setenv("COLUMNS", "160")

    def run(self, *arguments: str, status: int = 0) -> Result:
        result = CliRunner().invoke(app, arguments)
        if not isinstance(result.exception, SystemExit | None):
            raise result.exception
        assert result.exit_code == status, result.output + repr(result.exception)
        return result

    def lines(self, *arguments: str, status: int = 0) -> list[dict[str, Any]]:
        printed = self.run(*arguments, status=status).stdout
        return [json.loads(line) for line in printed.splitlines()]

    def line(self, *arguments: str, status: int = 0) -> dict[str, Any]:
        (only,) = self.lines(*arguments, status=status)
        return only

    def text(self, *arguments: str, status: int = 0) -> str:
        return self.run(*arguments, status=status).output
