"""`effect-broker demo crash-matrix`: there in a checkout, else an honest refusal."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import effect_broker
from effect_broker.surfaces.cli import demo

PACKAGE = Path(effect_broker.__file__).parent


def run(*arguments: str, path: Path | None = None) -> subprocess.CompletedProcess[str]:
    call = "from effect_broker.surfaces.cli.app import main; main()"
    environment = {**os.environ, **({"PYTHONPATH": str(path)} if path else {})}
    return subprocess.run(
        [sys.executable, "-c", call, *arguments],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )


def test_the_checkout_is_the_one_that_holds_the_package() -> None:
    checkout = demo.checkout_of(Path(demo.__file__))
    assert checkout is not None
    assert checkout / "layer" == PACKAGE.parent
    # Somebody's environment inside a checkout has a package of its own.
    installed = checkout / ".venv/lib/python3.11/site-packages/effect_broker/surfaces/cli"
    assert demo.checkout_of(installed / "demo.py") is None


def test_it_plays_the_cells_that_are_asked_for_and_passes_on_what_they_came_to() -> None:
    done = run("demo", "crash-matrix", "--seed", "7", "--only", "no such cell")
    assert done.returncode == 2
    assert "no cell's name holds 'no such cell'" in done.stderr


def test_an_installed_package_says_where_the_matrix_is(tmp_path: Path) -> None:
    shutil.copytree(PACKAGE, tmp_path / "effect_broker")
    done = run("demo", "crash-matrix", path=tmp_path)
    assert done.returncode == 1
    assert "make crash-matrix" in done.stderr
    assert "source checkout" in done.stderr
