from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from effect_broker.failpoints import Failpoint, Failpoints, notes_of
from effect_broker.ledger.postgres import PostgresLedger
from effect_broker.settings import Settings, SettingsInvalid
from effect_broker.telemetry import NullMeter
from effect_broker.wiring.core import Core

LOCAL = {"EFFECT_BROKER_DATABASE_URL": "postgresql://user@127.0.0.1/db"}
REACH = """
import sys
from pathlib import Path
from effect_broker.failpoints import Failpoint, Failpoints
Failpoints.from_file(Path(sys.argv[1])).reach(Failpoint.BEFORE_SOCKET_WRITE)
print("went on", flush=True)
"""


def orders(folder: Path, act: str, **more: int) -> Path:
    path = folder / "orders.json"
    path.write_text(json.dumps({"before_socket_write": {"act": act, **more}}))
    return path


def reaching(path: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", REACH, str(path)], stdout=subprocess.PIPE, text=True
    )


@pytest.mark.parametrize(
    "environment",
    [
        LOCAL | {"EFFECT_BROKER_ENVIRONMENT": "production"},
        LOCAL | {"EFFECT_BROKER_ENVIRONMENT": "staging"},
        {"EFFECT_BROKER_DATABASE_SECRET": "effect-broker/database"},
    ],
    ids=["production", "anything but local", "a database of a secret store"],
)
def test_failpoints_are_refused_wherever_it_could_be_production(
    environment: dict[str, str], tmp_path: Path
) -> None:
    Settings.from_environment(environment)
    named = {"EFFECT_BROKER_FAILPOINTS": str(orders(tmp_path, "kill"))}
    with pytest.raises(SettingsInvalid, match="FAILPOINTS"):
        Settings.from_environment(environment | named)


async def test_a_process_without_orders_has_the_plain_ledger() -> None:
    core = Core(Settings.from_environment(LOCAL), NullMeter())
    assert core.failpoints is None
    assert type(core.ledger) is PostgresLedger


@pytest.mark.parametrize(
    "text", [None, "", "[]", '{"nowhere": {"act": "kill"}}', '{"in_probe": {}}']
)
def test_a_name_alone_orders_nothing(text: str | None, tmp_path: Path) -> None:
    path = tmp_path / "orders.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(SettingsInvalid, match="FAILPOINTS"):
        Failpoints.from_file(path)


def test_a_process_that_is_to_die_there_does_nothing_more(tmp_path: Path) -> None:
    path = orders(tmp_path, "kill")
    process = reaching(path)
    out, _ = process.communicate(timeout=30)
    assert (process.returncode, out) == (-signal.SIGKILL, "")
    name, pid, _ = notes_of(path).read_text().split()
    assert (name, int(pid)) == ("before_socket_write", process.pid)


def test_a_process_that_is_to_stop_there_goes_on_once_continued(tmp_path: Path) -> None:
    process = reaching(orders(tmp_path, "stop"))
    _, status = os.waitpid(process.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status)
    assert psutil.Process(process.pid).status() == psutil.STATUS_STOPPED
    process.send_signal(signal.SIGCONT)
    out, _ = process.communicate(timeout=30)
    assert (process.returncode, out) == (0, "went on\n")


def test_orders_count_visits_and_hold_once(tmp_path: Path) -> None:
    path = orders(tmp_path, "note", skip=1)
    failpoints = Failpoints.from_file(path)
    for expected in (0, 1, 1):
        failpoints.reach(Failpoint.IN_PROBE)
        failpoints.reach(Failpoint.BEFORE_SOCKET_WRITE)
        noted = notes_of(path).read_text() if notes_of(path).exists() else ""
        assert noted.count("\n") == expected
