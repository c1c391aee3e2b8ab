"""The deployment: the same app and the same commands for every local AWS."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from infra.cdk import CDK, cdk_environment
from infra.progress import StepFailed, run
from localstack.platform import Addresses, client_environment
from localstack.workspace import ACCOUNT, REGION, Workspace

STACK = "effect-broker-local"
DEMO_TENANT = "demo"

# Everything that functions run; all but their own folders is in no asset locally.
_SOURCES = ("functions", "layer", "migrations")


@dataclass(frozen=True)
class Deployment:
    """The names that CloudFormation gave to what was deployed."""

    outputs: Mapping[str, str]

    @classmethod
    def read(cls, path: Path) -> Deployment:
        """Read the outputs that `cdk deploy` wrote."""
        return cls(json.loads(path.read_text())[STACK])

    def api_url(self, endpoint: str) -> str:
        """The HTTP API by path: names below `localhost` do not resolve everywhere."""
        return f"{endpoint}/_aws/execute-api/{self.outputs['ApiId']}/$default"

    def mcp_url(self, endpoint: str) -> str:
        """The URL of MCP clients by path, for the same reason."""
        url_id = urlsplit(self.outputs["McpUrl"]).netloc.partition(".")[0]
        return f"{endpoint}/_aws/lambda-url/{url_id}/mcp"


class Deployer:
    """Runs the three CDK commands; none can see any AWS but the local one."""

    def __init__(self, workspace: Workspace, endpoint: str):
        self._workspace = workspace
        self._environment = {**cdk_environment(), **client_environment(endpoint)}

    def bootstrap_command(self) -> list[str]:
        """Make the bucket and the roles that assets and deployments need."""
        return [*CDK, "bootstrap", f"aws://{ACCOUNT}/{REGION}"]

    def synth_command(self, context: Mapping[str, str]) -> list[str]:
        """Make the template; `python -m infra synth` is what checks it."""
        switches = [
            part for key, value in context.items() for part in ("-c", f"{key}={value}")
        ]
        assembly = str(self._workspace.assembly)
        return [
            *CDK,
            "synth",
            "--quiet",
            "--no-validation",
            "--output",
            assembly,
            *switches,
        ]

    def deploy_command(self) -> list[str]:
        """Deploy what was made, whether or not a deployment is there."""
        return [
            *(*CDK, "deploy", "--app", str(self._workspace.assembly)),
            *("--require-approval", "never", "--progress", "events"),
            *("--outputs-file", str(self._workspace.outputs)),
        ]

    def bootstrap(self) -> None:
        """Run where there is no cdk.json: with one the command makes the app first."""
        elsewhere = self._workspace.state / "bootstrap"
        elsewhere.mkdir(parents=True, exist_ok=True)
        self._run("bootstrap", self.bootstrap_command(), elsewhere)

    def synth(self, context: Mapping[str, str]) -> None:
        """Make the template of the local deployment."""
        self._run("synth", self.synth_command(context), self._workspace.root)

    def deploy(self) -> Deployment:
        """Deploy and return what it is called.

        Raises:
            StepFailed: the deployment was refused or rolled back, and why.
        """
        self._run("deploy", self.deploy_command(), self._workspace.root)
        try:
            return Deployment.read(self._workspace.outputs)
        except (FileNotFoundError, KeyError) as error:
            log = self._workspace.log("deploy")
            raise StepFailed(f"no outputs of {STACK}", log=log) from error

    def _run(self, name: str, command: list[str], cwd: Path) -> None:
        log = self._workspace.log(name)
        run(command, log=log, environment=self._environment, cwd=cwd)


def local_context(
    workspace: Workspace, *, addresses: Addresses, extra: Mapping[str, str]
) -> dict[str, str]:
    """The switches that turn the production app into the local one."""
    return {
        "local": "true",
        "databaseUrl": addresses.database_inside,
        "appDatabaseUrl": addresses.application_database_inside,
        "tenants": DEMO_TENANT,
        "contracts": str(workspace.contracts),
        "revision": source_revision(workspace.root),
        **extra,
    }


def source_revision(root: Path) -> str:
    """A digest of the code that functions run.

    It stands in each function's description, so that changed code replaces the functions
    (and their warm workers) and runs the migration, as a changed layer does elsewhere.
    """
    digest = hashlib.sha256()
    for name in _SOURCES:
        for path in sorted((root / name).rglob("*")):
            if path.is_file() and path.suffix not in (".pyc", ".pyo"):
                digest.update(f"{path.relative_to(root)}\0".encode())
                digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:12]
