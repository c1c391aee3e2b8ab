"""Installs the other systems, pinned by hash, into an environment of their own."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from rich.console import Console

HERE: Final = Path(__file__).parent
ROOT: Final = HERE.parents[1]
REQUIREMENTS: Final = HERE / "requirements.txt"
ENVIRONMENT: Final = ROOT / ".local" / "spike" / "venv"


class NotInstalled(Exception):
    """The systems could not be installed; the message is the installer's last line."""


def installed(console: Console) -> Path:
    """Return the Python of an environment that holds exactly the pinned systems.

    What this machine has otherwise plays no part.

    Raises:
        NotInstalled: no index, no release for this platform, a hash that differs.
    """
    python = ENVIRONMENT / "bin" / "python"
    wanted = hashlib.sha256(
        REQUIREMENTS.read_bytes() + sys.version.encode() + str(ENVIRONMENT).encode()
    ).hexdigest()
    mark = ENVIRONMENT / "requirements.sha256"
    if mark.exists() and mark.read_text() == wanted:
        return python
    with console.status("an environment for the other systems"):
        _run("venv", "--clear", "--python", sys.executable, str(ENVIRONMENT))
    names = [line for line in REQUIREMENTS.read_text().splitlines() if "==" in line]
    with console.status(f"installing {len(names)} pinned packages into it"):
        _run(
            *("pip", "install", "--python", str(python), "--require-hashes"),
            *("--only-binary", ":all:", "--requirement", str(REQUIREMENTS)),
        )
    console.print(f"{len(names)} pinned packages are in {os.path.relpath(ENVIRONMENT)}")
    mark.write_text(wanted)
    return python


def _run(*arguments: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "uv", "--quiet", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        said = done.stderr.strip().splitlines() or ["uv said nothing"]
        raise NotInstalled(said[-1].strip())
