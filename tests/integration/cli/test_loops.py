"""Worker, reconciler and `dev` as real processes, ended by real signals."""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest

from effect_broker.embedded import EmbeddedPostgres
from examples.crash_matrix.target.client import RunningTarget, run_target
from tests.guarantees import guarantee
from tests.integration.broker.world import KEYRING
from tests.integration.cli.commands import Commands

COMMAND: Final = [sys.executable, "-m", "effect_broker"]
CONTRACTS = """
[[contracts]]
tool = "demo.WORLD"
name = "demo-WORLD"
version = "1"
safety = "SAFETY"
adapter = "http"
attempt_timeout = "6s"
lease = "8s"
settlement_bound = "500ms"
backoff = { initial = "200ms", factor = 1.0, max = "200ms" }
MORE
[contracts.arguments]
type = "object"
[contracts.http]
url = "/WORLD/charges"
base_url = { secret = "demo/base_url" }
external_id = "/id"
allow_private = true
KEY
[contracts.http.meaning]
"2xx" = "committed"
"""
KEYED = {
    "WORLD": "keyed",
    "SAFETY": "idempotent",
    "MORE": 'key_retention = "24h"\nkey_records = "commits"',
    "KEY": 'key_header = "Idempotency-Key"',
}
PLAIN = {"WORLD": "plain", "SAFETY": "unsafe", "MORE": "", "KEY": ""}


def written(terms: dict[str, str]) -> str:
    text = CONTRACTS
    for name, value in terms.items():
        text = text.replace(name, value)
    return text


@pytest.fixture
def target(tmp_path: Path) -> Iterator[RunningTarget]:
    with run_target(tmp_path / "charges.db") as running:
        yield running


@pytest.fixture
def shop(commands: Commands, target: RunningTarget, tmp_path: Path) -> Commands:
    return open_shop(commands, target, tmp_path)


def open_shop(commands: Commands, target: RunningTarget, tmp_path: Path) -> Commands:
    """Publish a contract of each world, and make a tenant."""
    secret = "EFFECT_BROKER_SECRET__DEMO__BASE_URL"
    commands.monkeypatch.setenv(secret, target.url)
    contracts = tmp_path / "contracts.toml"
    contracts.write_text(written(KEYED) + written(PLAIN))
    commands.run("contracts", "publish", str(contracts))
    commands.run("tenants", "create", "shop")
    return commands


@contextmanager
def running(*arguments: str, **environ: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [*COMMAND, *arguments],
        env=os.environ | environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()
            process.communicate()


def ended(process: subprocess.Popen[str]) -> str:
    """Return what a process logged once it has ended well."""
    _, log = process.communicate(timeout=20)
    assert process.returncode == 0, log
    return log


def submit(commands: Commands, world: str, number: int) -> str:
    arguments = {"amount": 100, "currency": "eur", "order": f"order-{number}"}
    effect = commands.line(
        *("effects", "submit", "--operation-key", f"order:{number}:charge:v1"),
        *("--tool", f"demo.{world}", "--arguments", json.dumps(arguments), "--json"),
    )
    return str(effect["effect_id"])


def status(commands: Commands, effect_id: str) -> str:
    return str(commands.line("effects", "inspect", effect_id, "--json")["status"])


def until(fact: Callable[[], bool], seconds: float = 25.0) -> None:
    ends = time.monotonic() + seconds
    while not fact():
        assert time.monotonic() < ends, "it did not come true in time"
        time.sleep(0.05)


def test_worker_sends_and_ends_at_a_signal(shop: Commands, target: RunningTarget) -> None:
    with running("worker") as worker:
        first, second = (submit(shop, "keyed", number) for number in (1, 2))
        until(lambda: status(shop, second) == "succeeded")
        worker.send_signal(signal.SIGTERM)
        ended(worker)
    assert status(shop, first) == "succeeded"
    assert len(target.charges()) == 2


@guarantee("lost-answer-is-unknown")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_terminated_worker_lets_its_attempt_end(
    shop: Commands, target: RunningTarget, number: int
) -> None:
    target.fault("delay_after_commit", seconds=1.5)
    effect = submit(shop, "plain", 1)
    with running("worker") as worker:
        until(lambda: len(target.charges()) == 1)
        later = submit(shop, "plain", 2)
        worker.send_signal(number)
        ended(worker)
    assert status(shop, effect) == "succeeded"
    assert status(shop, later) == "prepared"


@guarantee("lost-answer-is-unknown")
@pytest.mark.parametrize("signals", [1, 2])
def test_attempt_that_outlives_the_grace_is_unknown_and_never_sendable(
    shop: Commands, target: RunningTarget, signals: int
) -> None:
    target.fault("delay_after_commit", seconds=5.0)
    effect = submit(shop, "plain", 1)
    with running("worker", "--drain", "0.5" if signals == 1 else "60") as worker:
        until(lambda: len(target.charges()) == 1)
        for _ in range(signals):
            worker.send_signal(signal.SIGTERM)
            time.sleep(0.2)
        ended(worker)
    assert status(shop, effect) == "outcome_unknown"
    with running("worker"), running("reconciler"):
        until(lambda: status(shop, submit(shop, "keyed", 9)) == "succeeded")
    assert status(shop, effect) == "outcome_unknown"
    assert len(target.charges("order-1")) == 1


def test_reconciler_brings_back_what_a_killed_worker_left(
    shop: Commands, target: RunningTarget
) -> None:
    target.fault("delay_after_commit", seconds=5.0)
    effect = submit(shop, "keyed", 1)
    with running("worker") as worker:
        until(lambda: len(target.charges()) == 1)
        worker.kill()
    with running("reconciler"), running("worker") as worker:
        until(lambda: status(shop, effect) == "succeeded")
        worker.send_signal(signal.SIGTERM)
        ended(worker)
    assert len(target.charges()) == 1


def test_worker_without_a_ledger_waits_and_says_so_once(commands: Commands) -> None:
    nowhere = "postgresql://nobody@127.0.0.1:1/none"
    with running("worker", EFFECT_BROKER_DATABASE_URL=nowhere) as worker:
        assert worker.stderr is not None
        lines = iter(worker.stderr.readline, "")
        until(lambda: "waits for the ledger" in next(lines), 15)
        worker.send_signal(signal.SIGTERM)
        worker.wait(timeout=20)
    assert worker.returncode == 0


def test_processes_go_on_when_their_database_is_back(
    private_postgres: EmbeddedPostgres,
    monkeypatch: pytest.MonkeyPatch,
    target: RunningTarget,
    tmp_path: Path,
) -> None:
    commands = open_shop(Commands(private_postgres.url(), monkeypatch), target, tmp_path)
    with running("worker") as worker, running("reconciler") as reconciler:
        before = submit(commands, "keyed", 1)
        until(lambda: status(commands, before) == "succeeded")
        private_postgres.kill()
        for process in (worker, reconciler):
            assert process.stderr is not None
            lines = iter(process.stderr.readline, "")
            until(lambda told=lines: "waits for the ledger" in next(told))  # type: ignore[misc]
        private_postgres.restart()
        after = submit(commands, "keyed", 2)
        until(lambda: status(commands, after) == "succeeded")
        for process in (worker, reconciler):
            process.send_signal(signal.SIGTERM)
            assert "waits for the ledger" not in ended(process)
    assert len(target.charges()) == 2


def test_metrics_are_served_beside_the_work(shop: Commands, unused_tcp_port: int) -> None:
    with running("reconciler", "--metrics-port", str(unused_tcp_port)) as process:
        url = f"http://127.0.0.1:{unused_tcp_port}"

        def alive() -> bool:
            try:
                return httpx2.get(f"{url}/healthz").text == "alive"
            except httpx2.ConnectError:
                return False

        until(alive)
        assert "effect_broker_unknown" in httpx2.get(f"{url}/metrics").text
        process.send_signal(signal.SIGTERM)
        ended(process)


def test_development_needs_nothing_and_keeps_everything(
    tmp_path: Path, target: RunningTarget
) -> None:
    contracts = tmp_path / "contracts"
    contracts.mkdir()
    (contracts / "keyed.toml").write_text(written(KEYED))
    folder = tmp_path / "state"
    command = ("dev", str(contracts), "--folder", str(folder), "--port", "0")
    environ = {"EFFECT_BROKER_SECRET__DEMO__BASE_URL": target.url}
    effects: list[Any] = []
    for _ in range(2):
        with running(*command, **environ) as process:
            url, key = exported(process)
            with httpx2.Client(
                base_url=url, headers={"Authorization": f"Bearer {key}"}
            ) as caller:
                effects.append(charged(caller, "demo.keyed"))
                if len(effects) == 1:
                    (contracts / "plain.toml").write_text(written(PLAIN))
                    until(lambda c=caller: "demo.plain" in tools(c))  # type: ignore[misc]
            process.send_signal(signal.SIGTERM)
            ended(process)
    assert [it["replayed"] for it in effects] == [False, True]
    assert effects[0]["effect_id"] == effects[1]["effect_id"]
    assert len(target.charges()) == 1
    private = [folder / "keyring.json", folder / "api-key"]
    assert {path.stat().st_mode & 0o777 for path in private} == {0o600}


def exported(process: subprocess.Popen[str]) -> tuple[str, str]:
    assert process.stdout is not None
    found = [process.stdout.readline().strip().partition("=")[2] for _ in range(2)]
    return found[0], found[1]


def charged(caller: httpx2.Client, tool: str) -> dict[str, Any]:
    arguments = {"amount": 100, "currency": "eur", "order": "order-1"}
    body = {"operation_key": "order:1:charge:v1", "tool": tool, "arguments": arguments}
    answer = caller.post("/v1/effects", json=body, headers={"Prefer": "wait=15"})
    found: dict[str, Any] = answer.json()
    assert found["status"] == "succeeded", found
    return found


def tools(caller: httpx2.Client) -> set[str]:
    return {it["tool"] for it in caller.get("/v1/tools").json()["tools"]}


def test_development_without_contracts_prints_a_request_that_succeeds(
    tmp_path: Path,
) -> None:
    command = ("dev", "--folder", str(tmp_path / "state"), "--port", "0")
    with running(*command) as process:
        url, key = exported(process)
        assert process.stdout is not None
        comments = [process.stdout.readline() for _ in range(2)]
        assert all(line.startswith("# ") for line in comments), comments
        listing, submission = (shlex.split(process.stdout.readline()) for _ in range(2))
        assert listing[:3] == ["curl", "-sS", "$EFFECT_BROKER_URL/v1/tools"]
        headers = dict(
            submission[place + 1].split(": ", 1)
            for place, word in enumerate(submission)
            if word == "-H"
        )
        headers["Authorization"] = f"Bearer {key}"
        made = httpx2.post(
            submission[2].replace("$EFFECT_BROKER_URL", url),
            headers=headers,
            content=submission[submission.index("-d") + 1],
        )
        assert made.json()["status"] == "succeeded", made.text
        process.send_signal(signal.SIGTERM)
        ended(process)


def test_second_development_in_a_folder_is_refused_and_the_first_goes_on(
    tmp_path: Path,
) -> None:
    command = ("dev", "--folder", str(tmp_path / "state"), "--port", "0")
    with running(*command) as process:
        url, key = exported(process)
        with running(*command) as second:
            _, told = second.communicate(timeout=30)
        assert second.returncode == 1
        assert f"as process {process.pid}" in told
        with httpx2.Client(
            base_url=url, headers={"Authorization": f"Bearer {key}"}
        ) as caller:
            assert caller.get("/readyz").status_code == 200
            assert tools(caller) == {"demo.charge"}
        process.send_signal(signal.SIGTERM)
        ended(process)


def test_development_lets_the_command_line_in_and_says_what_it_cannot_send(
    tmp_path: Path,
) -> None:
    contracts = tmp_path / "contracts.toml"
    contracts.write_text(written(KEYED))
    folder = tmp_path / "state"
    with running(
        "dev", str(contracts), "--folder", str(folder), "--port", "0"
    ) as process:
        exported(process)
        assert process.stdout is not None
        told = [process.stdout.readline() for _ in range(3)]
        assert told[0] == f"# the command line, in another shell: . {folder}/env\n"
        assert told[2].startswith("# nothing can be sent for demo.keyed: The secret")
        assert (folder / "env").stat().st_mode & 0o777 == 0o600
        assert (folder / ".gitignore").read_text() == "*\n"
        listed = subprocess.run(
            ["sh", "-c", f". {folder}/env; exec effect-broker effects list --json"],
            env={"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        assert (listed.returncode, listed.stdout) == (0, ""), listed.stderr
        process.send_signal(signal.SIGTERM)
        ended(process)


def test_address_that_is_taken_ends_a_process_with_a_line(shop: Commands) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        for command in (["worker", "--metrics-port", port], ["serve", "--port", port]):
            with running(*command) as process:
                _, told = process.communicate(timeout=20)
            assert process.returncode == 1
            assert (
                told.strip()
                .splitlines()[-1]
                .startswith("effect-broker: the address cannot be had")
            )
            assert "Traceback" not in told


def test_broken_contract_stops_development_with_its_name(tmp_path: Path) -> None:
    broken = tmp_path / "broken.toml"
    broken.write_text(written(PLAIN).replace("unsafe", "perfectly_safe"))
    command = ("dev", str(broken), "--folder", str(tmp_path / "state"), "--port", "0")
    with running(*command) as process:
        _, told = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "broken.toml" in told


def test_keyring_of_another_ledger_stops_a_worker(shop: Commands) -> None:
    submit(shop, "keyed", 1)
    ring = json.loads(KEYRING)
    ring["data_keys"] = {"k9": ring["data_keys"]["k1"]}
    ring["active_data_key"] = "k9"
    with running("worker", EFFECT_BROKER_KEYRING=json.dumps(ring)) as worker:
        _, told = worker.communicate(timeout=30)
    assert worker.returncode == 1
    assert "lacks k1" in told
