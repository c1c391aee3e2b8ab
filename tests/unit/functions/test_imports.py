"""What a cold start pays for: each function imports its own libraries and no other's."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
HEAVY = {
    "alembic",
    "boto3",
    "botocore",
    "fastapi",
    "httpx2",
    "mangum",
    "mcp",
    "prometheus_client",
    "rich",
    "sqlalchemy",
    "stripe",
    "typer",
    "uvicorn",
    "yaml",
}
ALLOWED = {
    "submit": {"fastapi", "mangum"},
    "dispatch": {"httpx2"},
    "reconcile": {"httpx2"},
    "migrate": set(),
    "mcp": {"fastapi", "httpx2", "mangum", "mcp", "uvicorn"},
}
PROBE = """
import json, sys
sys.path[:0] = sys.argv[1:3]
import handler
print(json.dumps([name for name in sys.modules if "." not in name]))
"""


@pytest.mark.parametrize("name", sorted(ALLOWED))
def test_handler_imports_only_what_its_function_needs(name: str) -> None:
    """Isolated from the environment, with nothing but layer and function on the path."""
    done = subprocess.run(
        [
            sys.executable,
            "-I",
            "-c",
            PROBE,
            str(ROOT / "layer"),
            str(ROOT / "functions" / name),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert set(json.loads(done.stdout)) & HEAVY <= ALLOWED[name]
