"""The local AWS's own state: whose a process is, which port it has, what it says."""

from __future__ import annotations

import io
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from rich.console import Console

from infra.progress import StepFailed, Steps, cause, run
from localstack import environment, ports, processes
from localstack.choice import platform_that_runs, platform_to_start
from localstack.compose import Compose
from localstack.deploy import Deployment, source_revision
from localstack.lock import exclusive
from localstack.ministack import Ministack
from localstack.platform import HOST, Addresses
from localstack.processes import ProcessRecord
from localstack.seed import API_KEY, OPERATOR_KEY
from localstack.state import State
from localstack.workers import workers
from localstack.workspace import Workspace, WorkspaceError

WAITS = "import sys; print('on', flush=True); sys.stdin.read()"


@pytest.fixture
def waiting(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that runs a script below `tmp_path` until it is stopped."""
    script = tmp_path / "ministack-lambda-effect-broker-local-dispatch-a1b2c3d4"
    script.mkdir()
    (script / "_worker.py").write_text(WAITS)
    with subprocess.Popen(
        [sys.executable, script / "_worker.py"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == "on\n"
        yield process
        process.kill()


def record(process: subprocess.Popen[str], marker: str = "_worker.py") -> ProcessRecord:
    return ProcessRecord(process.pid, psutil.Process(process.pid).create_time(), marker)


def test_a_process_is_ours_by_its_start_and_its_command_line(
    waiting: subprocess.Popen[str],
) -> None:
    ours = record(waiting)
    assert ours.find() == psutil.Process(waiting.pid)
    assert replace(ours, started=ours.started - 60).find() is None
    assert replace(ours, marker="-m ministack").find() is None


def test_an_ended_process_is_nobodys(waiting: subprocess.Popen[str]) -> None:
    ours = record(waiting)
    waiting.kill()
    waiting.wait()
    assert ours.find() is None


def test_a_suspended_process_is_stopped_too(waiting: subprocess.Popen[str]) -> None:
    os.kill(waiting.pid, signal.SIGSTOP)
    os.waitpid(waiting.pid, os.WUNTRACED)
    processes.stop([psutil.Process(waiting.pid)])
    assert waiting.wait() == -signal.SIGKILL


def test_stopping_a_process_stops_what_it_had_started(tmp_path: Path) -> None:
    script = (
        "import subprocess, sys; child = subprocess.Popen([sys.executable, '-c',"
        " 'import time; time.sleep(600)']); print(child.pid, flush=True); child.wait()"
    )
    ours = processes.start(
        [sys.executable, "-c", script],
        log=tmp_path / "parent.log",
        environment={},
        cwd=tmp_path,
        marker="subprocess",
    )
    while not (tmp_path / "parent.log").read_text().endswith("\n"):
        assert psutil.pid_exists(ours.pid)
    parent = ours.find()  # a process that has just begun shows no command line yet
    assert parent is not None
    child = psutil.Process(int((tmp_path / "parent.log").read_text()))
    processes.stop([parent])
    for process in (parent, child):
        assert not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


def test_an_orphaned_worker_is_found_by_the_folder_it_runs_from(
    waiting: subprocess.Popen[str], tmp_path: Path
) -> None:
    assert [p.pid for p in processes.started_from(tmp_path)] == [waiting.pid]
    assert processes.started_from(tmp_path / "elsewhere") == []


def test_a_worker_is_found_by_its_function(tmp_path: Path) -> None:
    workspace = Workspace(root=tmp_path)
    folder = workspace.emulator_temporary / "ministack-lambda-a-dispatch-x_1y2z3w"
    folder.mkdir(parents=True)
    (folder / "_worker.py").write_text(WAITS)
    with subprocess.Popen(
        [sys.executable, folder / "_worker.py"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout
        process.stdout.readline()
        assert [w.pid for w in workers(workspace, "a-dispatch")] == [process.pid]
        assert workers(workspace, "dispatch") == []
        process.kill()


def test_state_is_read_back_as_it_was_saved_and_only_by_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    state = State(
        kind="emulator",
        ports={"aws": 4566},
        processes={"emulator": ProcessRecord(1, 2.5, "-m ministack")},
        keys={API_KEY: "ebk_1_2"},
        bootstrapped="1@2.5",
    )
    state.save(path)
    assert State.load(path) == state
    assert path.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("text", ["", "{", "[]", '{"ports": {}, "surprise": 1}'])
def test_unreadable_state_counts_as_nothing_started(tmp_path: Path, text: str) -> None:
    (tmp_path / "state.json").write_text(text)
    assert State.load(tmp_path / "state.json") == State()


def test_the_last_port_is_used_again_while_it_is_free() -> None:
    last = ports.free()
    assert ports.choose("aws", wanted={}, last={"aws": last}) == last


def test_a_last_port_that_is_taken_is_replaced() -> None:
    with socket.create_server((HOST, 0)) as taken:
        port = taken.getsockname()[1]
        assert ports.choose("aws", wanted={}, last={"aws": port}) != port


def test_a_port_that_was_asked_for_is_never_replaced() -> None:
    with socket.create_server((HOST, 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(StepFailed, match=rf"port {port} .*\(LOCAL_AWS_PORT"):
            ports.choose("aws", wanted={"aws": port}, last={})


@pytest.mark.parametrize(
    ("variables", "why"),
    [
        ({"LOCAL_AWS": "azure"}, "LOCAL_AWS=azure"),
        ({"LOCAL_AWS_PORT": "http"}, "LOCAL_AWS_PORT=http is no port"),
        ({"LOCAL_TARGET_PORT": "70000"}, "LOCAL_TARGET_PORT=70000 is no port"),
    ],
)
def test_a_variable_that_means_nothing_is_named(
    variables: dict[str, str], why: str
) -> None:
    with pytest.raises(WorkspaceError, match=why):
        Workspace.from_environment(variables)


def test_what_runs_is_stopped_whatever_local_aws_says_now(tmp_path: Path) -> None:
    state = State(kind="localstack")
    workspace = Workspace(root=tmp_path)
    assert isinstance(platform_that_runs(workspace, state), Compose)
    with pytest.raises(StepFailed, match="LOCAL_AWS=localstack runs here"):
        platform_to_start(workspace, state)


def test_a_second_up_in_the_same_checkout_waits_for_nobody(tmp_path: Path) -> None:
    with (
        exclusive(tmp_path / "lock"),
        pytest.raises(StepFailed, match=f"process {os.getpid()} is at it"),
        exclusive(tmp_path / "lock"),
    ):
        pass


def test_functions_come_in_as_the_application_by_a_password_that_is_kept(
    tmp_path: Path,
) -> None:
    workspace = Workspace(root=tmp_path)
    workspace.state.mkdir()
    platform = Ministack(workspace, State())
    password = platform.application_password()
    assert len(password) >= 32
    assert platform.application_password() == password
    assert workspace.application_password_file.stat().st_mode & 0o077 == 0


def test_a_shell_reads_the_environment_file_as_it_was_meant(tmp_path: Path) -> None:
    addresses = Addresses(
        aws="http://127.0.0.1:1",
        database="postgresql://u:p'w$(x)@127.0.0.1/d",
        target="http://127.0.0.1:2",
        database_inside="",
        application_database_inside="",
        target_inside="",
    )
    outputs = {f"{n}Function": f"f-{n}" for n in ("Submit", "Dispatch", "Reconcile")}
    outputs |= {"MigrateFunction": "f-Migrate", "ApiId": "abc", "McpFunction": "f-Mcp"}
    outputs |= {"McpUrl": "https://u123.lambda-url.eu-central-1.on.aws/"}
    outputs |= {"DispatchQueueUrl": "http://q/d", "ReconcileQueueUrl": "http://q/r"}
    keys = {API_KEY: "ebk_a", OPERATOR_KEY: "ebk_o"}
    values = environment.variables(addresses, Deployment(outputs), keys, tmp_path / "k")
    environment.write(tmp_path / "env", values)
    shell = ["sh", "-c", '. "$0" && env -0', str(tmp_path / "env")]
    said = subprocess.run(shell, env={}, capture_output=True, text=True, check=True)
    seen = dict(line.split("=", 1) for line in said.stdout.split("\0") if line)
    assert {name: seen.get(name) for name in values} == values
    assert seen["EFFECT_BROKER_URL"].endswith("/abc/$default")
    assert seen["EFFECT_BROKER_MCP_URL"].endswith("/lambda-url/u123/mcp")
    assert seen["EFFECT_BROKER_KEYRING"] == f"file:{tmp_path / 'k'}"
    assert (tmp_path / "env").stat().st_mode & 0o077 == 0


def test_emulator_and_workers_see_none_of_the_callers_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_PROFILE", "production")
    monkeypatch.setenv("EFFECT_BROKER_DATABASE_URL", "postgresql://elsewhere")
    seen = Ministack(Workspace(root=tmp_path), State()).emulator_environment(4566)
    assert "AWS_PROFILE" not in seen
    assert "EFFECT_BROKER_DATABASE_URL" not in seen
    assert seen["BIND_HOST"] == HOST
    for name in ("TMPDIR", "HOME", "STATE_DIR", "S3_DATA_DIR"):
        assert seen[name].startswith(str(tmp_path)), name


def test_changed_code_is_another_revision_and_bytecode_is_not(tmp_path: Path) -> None:
    (tmp_path / "layer").mkdir()
    (tmp_path / "layer" / "a.py").write_text("a = 1\n")
    before = source_revision(tmp_path)
    (tmp_path / "layer" / "a.pyc").write_bytes(b"x")
    assert source_revision(tmp_path) == before
    (tmp_path / "layer" / "a.py").write_text("a = 2\n")
    assert source_revision(tmp_path) != before


def test_a_failed_step_says_which_why_and_where_the_log_is(tmp_path: Path) -> None:
    log = tmp_path / "deploy.log"
    script = (
        "import sys; print('stack | CREATE_FAILED | Migrate: no such role'); sys.exit(1)"
    )
    shown = Console(file=io.StringIO())
    with pytest.raises(StepFailed) as failed, Steps(shown) as steps, steps.step("deploy"):
        run([sys.executable, "-c", script], log=log, environment={}, cwd=tmp_path)
    assert str(failed.value) == (
        f"deploy failed: stack | CREATE_FAILED | Migrate: no such role (log: {log})"
    )


def test_steps_together_all_end_before_one_failure_is_raised() -> None:
    ended = []

    def fails() -> None:
        raise StepFailed("no disk")

    with (
        Steps(Console(file=io.StringIO())) as steps,
        pytest.raises(StepFailed, match="first failed: no disk"),
    ):
        steps.together({"first": fails, "second": lambda: ended.append(1)})
    assert ended == [1]


@pytest.mark.parametrize(
    ("output", "why"),
    [
        ("a\nRuntimeError: no asset\nexited with error 1\n", "RuntimeError: no asset"),
        ("x\nE: No space left on device\nnpm error y", "E: No space left on device"),
        ("only this\n\n", "only this"),
        ("", ""),
    ],
)
def test_the_line_that_says_why_is_found_in_a_commands_output(
    output: str, why: str
) -> None:
    assert cause(output) == why
