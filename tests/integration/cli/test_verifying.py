"""`contracts verify` from the shell: asked for by a flag, told as a table and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from examples.crash_matrix.target.client import RunningTarget, run_target
from tests.integration.cli.commands import Commands

CONTRACT = """
[[contracts]]
tool = "demo.charge"
name = "demo-charge"
version = "1"
safety = "idempotent"
adapter = "http"
attempt_timeout = "3s"
lease = "5s"
settlement_bound = "1s"
key_retention = "24h"
key_records = "all_answers"
backoff = { initial = "200ms", factor = 2.0, max = "5s" }
[contracts.arguments]
type = "object"
[contracts.http]
url = "/WORLD/charges"
base_url = { secret = "demo/production" }
key_header = "Idempotency-Key"
external_id = "/id"
allow_private = true
[contracts.http.meaning]
code = "/error/code"
"2xx" = "committed"
"402/card_declined" = "rejected_final"
"409/idempotency_key_in_use" = "in_progress"
"409/idempotency_key_reuse" = "key_conflict"
[contracts.sandbox]
base_url = { secret = "demo/sandbox" }
arguments = { amount = 100, currency = "eur", order = "verify" }
other_arguments = { amount = 101, currency = "eur", order = "verify" }
"""


@pytest.fixture
def target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunningTarget]:
    with run_target(tmp_path / "charges.db") as running:
        monkeypatch.setenv("EFFECT_BROKER_SECRET__DEMO__SANDBOX", running.url)
        yield running


@pytest.fixture
def shell(commands: Commands, target: RunningTarget) -> Commands:
    commands.monkeypatch.delenv("EFFECT_BROKER_DATABASE_URL", raising=False)
    return commands


def written(folder: Path, world: str) -> str:
    path = folder / f"{world}.toml"
    path.write_text(CONTRACT.replace("WORLD", world))
    return str(path)


def test_nothing_is_sent_without_the_flag(
    shell: Commands, target: RunningTarget, tmp_path: Path
) -> None:
    told = shell.text("contracts", "verify", written(tmp_path, "keyed"), status=2)
    assert "--against-sandbox" in told
    assert target.requests() == []


def test_honest_contract_is_told_as_a_table_and_needs_no_ledger(
    shell: Commands, tmp_path: Path
) -> None:
    path = written(tmp_path, "keyed")
    told = shell.text("contracts", "verify", path, "--against-sandbox")
    assert "the same key twice at once" in told
    assert "claims idempotent; what was seen carries idempotent" in told


def test_lying_contract_ends_with_1_and_says_where(
    shell: Commands, tmp_path: Path
) -> None:
    path = written(tmp_path, "plain")
    (report,) = shell.lines(
        "contracts", "verify", path, "--against-sandbox", "--json", status=1
    )
    assert report["claims_too_much"] is True
    assert report["proposed_safety"] == "unsafe"


def test_report_is_resumed_by_a_later_run(
    shell: Commands, target: RunningTarget, tmp_path: Path
) -> None:
    path, report = written(tmp_path, "keyed"), str(tmp_path / "report.json")
    verify = ("contracts", "verify", path, "--against-sandbox")
    shell.run(*verify, "--report", report)
    assert "still kept after" in shell.text(*verify, "--resume", report)
    target.settings(retention_seconds=0.0)
    assert "forgotten after" in shell.text(*verify, "--resume", report, status=1)


def test_contract_without_a_sandbox_is_refused_by_name(
    shell: Commands, tmp_path: Path
) -> None:
    path = tmp_path / "bare.toml"
    path.write_text(CONTRACT.partition("[contracts.sandbox]")[0])
    verify = ("contracts", "verify", str(path), "--against-sandbox")
    assert "No contract there has a sandbox" in shell.text(*verify, status=1)
    told = shell.text(*verify, "--tool", "demo.charge", status=1)
    assert "[contracts.sandbox] is missing" in told
