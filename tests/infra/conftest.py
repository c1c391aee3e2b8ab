"""Templates, made once a session by the app in a process of its own, as CDK runs it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from infra.cdk import ROOT, cdk_environment
from tests.infra.template import Template

FUNCTIONS = ("submit", "mcp", "dispatch", "reconcile", "migrate")
APP = """
import sys
from pathlib import Path
from infra.app import build
out, functions = map(Path, sys.argv[1:])
build(outdir=out, functions=functions).synth()
"""

Synthesize = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def synthesize(tmp_path_factory: pytest.TempPathFactory) -> Synthesize:
    """Make the app's templates in a folder, for the context given; stubs for code."""
    stubs = tmp_path_factory.mktemp("functions")
    for name in FUNCTIONS:
        (stubs / name).mkdir()
        (stubs / name / "handler.py").write_text("handler = None\n")
    flags = json.loads((ROOT / "cdk.json").read_text())["context"]

    def make(out: Path, **context: str) -> subprocess.CompletedProcess[str]:
        environment: Mapping[str, str] = {
            **cdk_environment(),
            "CDK_CONTEXT_JSON": json.dumps({**flags, **context}),
        }
        command = [sys.executable, "-c", APP, str(out), str(stubs)]
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False
        )

    return make


@pytest.fixture(scope="session")
def layer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A stub of a layer: what is in it is another test's business."""
    folder = tmp_path_factory.mktemp("layer")
    (folder / "python").mkdir()
    return folder


@pytest.fixture(scope="session")
def production(
    synthesize: Synthesize, layer: Path, tmp_path_factory: pytest.TempPathFactory
) -> Template:
    """The template of production with everything that a flag can switch on."""
    topic = "arn:aws:sns:us-east-1:000000000000:alarms"
    context = {"tenants": "acme,demo", "proxy": "true", "alarmTopicArn": topic}
    context["layer"] = str(layer)
    out = tmp_path_factory.mktemp("production")
    return _template(synthesize(out, **context), out)


@pytest.fixture(scope="session")
def local(synthesize: Synthesize, tmp_path_factory: pytest.TempPathFactory) -> Template:
    """The template of the local deployment."""
    url = "postgresql://user:word@127.0.0.1:5432/ledger"
    out = tmp_path_factory.mktemp("local")
    context = {"local": "true", "databaseUrl": url, "tenants": "demo"}
    return _template(synthesize(out, **context), out)


def _template(made: subprocess.CompletedProcess[str], out: Path) -> Template:
    assert made.returncode == 0, made.stderr[-3000:]
    (path,) = out.glob("*.template.json")
    return Template(json.loads(path.read_text()))
