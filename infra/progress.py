"""Steps that a person watches: what runs, for how long, and in one line why it failed."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

COMMAND_SECONDS_MAX = 900
CAUSE_LENGTH_MAX = 300

# What the line of a log that says why looks like, the best first.
_CAUSES = (
    "no space left on device",
    "address already in use",
    "create_failed",
    "update_failed",
    "❌",
    "validationfailed",
    "configerror:",
    "error:",
    "error ",
)


class StepFailed(RuntimeError):
    """A step could not be done: which one, why in one line, and where the log is."""

    def __init__(self, why: str, *, log: Path | None = None, step: str = ""):
        super().__init__(why)
        self.why = " ".join(why.split())[:CAUSE_LENGTH_MAX]
        self.log = log
        self.step = step

    def __str__(self) -> str:
        log = f" (log: {self.log})" if self.log else ""
        failed = f"{self.step} failed: " if self.step else ""
        return f"{failed}{self.why}{log}"


class Steps:
    """Runs steps and shows them, with a spinner where there is a terminal."""

    def __init__(self, console: Console | None = None):
        self.console = console or Console(highlight=False)
        self._started = time.monotonic()
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            TimeElapsedColumn(),
            console=self.console,
            transient=True,
        )

    @property
    def elapsed(self) -> float:
        """Seconds since the first step could have started."""
        return time.monotonic() - self._started

    def __enter__(self) -> Steps:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Show one step; whatever fails in it fails under its name.

        Raises:
            StepFailed: the step's own failure, or an operating system error in it.
        """
        task = self._progress.add_task(name, total=None)
        if not self.console.is_terminal:
            self._say("…", name, "")
        begun = time.monotonic()
        try:
            yield
        except (StepFailed, OSError) as error:
            self._say("[red]✗[/]", name, f"{time.monotonic() - begun:.1f} s")
            raise _named(error, name) from error
        finally:
            self._progress.remove_task(task)
        self._say("[green]✓[/]", name, f"{time.monotonic() - begun:.1f} s")

    def together(self, steps: Mapping[str, Callable[[], Any]]) -> dict[str, Any]:
        """Run steps at the same time, let all end, and raise the first failure."""

        def run(name: str) -> Any:
            with self.step(name):
                return steps[name]()

        with ThreadPoolExecutor(len(steps)) as pool:
            futures = {name: pool.submit(run, name) for name in steps}
        return {name: future.result() for name, future in futures.items()}

    def _say(self, mark: str, name: str, took: str) -> None:
        duration = f" [dim]{took}[/]" if took else ""
        line = f"[dim]{self.elapsed:5.1f} s[/]  {mark} {escape(name)}{duration}"
        self._progress.console.print(line, soft_wrap=True)


def run(
    command: Sequence[str | Path],
    *,
    log: Path,
    environment: Mapping[str, str],
    cwd: Path,
    seconds_max: float = COMMAND_SECONDS_MAX,
) -> None:
    """Run a command to its end with its whole output in a log.

    Raises:
        StepFailed: it failed or took too long; the line of its output that says why.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as output:
        process = subprocess.Popen(
            [str(part) for part in command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=dict(environment),
            cwd=cwd,
            start_new_session=True,
        )
        try:
            code = process.wait(timeout=seconds_max)
        except BaseException as error:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            if isinstance(error, subprocess.TimeoutExpired):
                raise StepFailed(f"no end after {seconds_max:.0f} s", log=log) from error
            raise
    if code != 0:
        raise StepFailed(
            cause(log.read_text(errors="replace")) or f"exit {code}", log=log
        )


def cause(output: str) -> str:
    """Pick the line that says why out of a failed command's output, else its last."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    for sign in _CAUSES:
        found = [line for line in lines if sign in line.lower()]
        if found:
            return found[-1] if sign.endswith(("error:", "error ")) else found[0]
    return lines[-1] if lines else ""


def _named(error: StepFailed | OSError, step: str) -> StepFailed:
    if isinstance(error, StepFailed):
        error.step = error.step or step
        return error
    return StepFailed(
        f"{error.strerror or error}: {error.filename or ''}".rstrip(": "), step=step
    )
