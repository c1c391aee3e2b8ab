"""`.local/env`: what a shell sources in order to use the local broker."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from pathlib import Path

from localstack.deploy import Deployment
from localstack.platform import Addresses, client_environment
from localstack.seed import API_KEY, OPERATOR_KEY

FUNCTIONS = ("submit", "mcp", "dispatch", "reconcile", "migrate")


def variables(
    addresses: Addresses, deployment: Deployment, keys: Mapping[str, str], keyring: Path
) -> dict[str, str]:
    """Everything that a client, a test or the demo needs in order to reach the parts.

    The command line finds the ledger, its keyring and the queues by it.
    """
    outputs = deployment.outputs
    functions = {
        f"{n.upper()}_FUNCTION": outputs[f"{n.title()}Function"] for n in FUNCTIONS
    }
    return {
        "EFFECT_BROKER_URL": deployment.api_url(addresses.aws),
        "EFFECT_BROKER_MCP_URL": deployment.mcp_url(addresses.aws),
        API_KEY: keys[API_KEY],
        OPERATOR_KEY: keys[OPERATOR_KEY],
        "DATABASE_URL": addresses.database,
        "EFFECT_BROKER_DATABASE_URL": addresses.database,
        "EFFECT_BROKER_KEYRING": f"file:{keyring}",
        "EFFECT_BROKER_DISPATCH_QUEUE_URL": outputs["DispatchQueueUrl"],
        "EFFECT_BROKER_RECONCILE_QUEUE_URL": outputs["ReconcileQueueUrl"],
        "DEMO_TARGET_URL": addresses.target,
        **_secrets_of_targets(addresses),
        **client_environment(addresses.aws),
        **functions,
        "DISPATCH_QUEUE_URL": outputs["DispatchQueueUrl"],
        "RECONCILE_QUEUE_URL": outputs["ReconcileQueueUrl"],
    }


def _secrets_of_targets(addresses: Addresses) -> dict[str, str]:
    """Let this host send for the demo's contracts, where it sees the target as they do.

    By another address it would be another target, and nothing may be sent to that.
    """
    if addresses.target != addresses.target_inside:
        return {}
    return {"EFFECT_BROKER_SECRET__DEMO__BASE_URL": addresses.target}


def render(values: Mapping[str, str]) -> str:
    """One `export` a line, quoted for any POSIX shell (the API's URL has a `$` in it)."""
    return "".join(
        f"export {name}={shlex.quote(value)}\n" for name, value in values.items()
    )


def write(path: Path, values: Mapping[str, str]) -> None:
    """Replace the file at once; it holds keys, so that only its owner may read it."""
    fresh = path.with_suffix(".new")
    fresh.touch(mode=0o600)
    fresh.write_text(render(values))
    os.replace(fresh, path)
