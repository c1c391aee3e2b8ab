"""The app that cdk.json names: context in, templates out."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import cdk_nag

from infra.config import Config
from infra.packaging import FUNCTIONS
from infra.stacks.broker import BrokerStack

# CDK would tag it, and CloudFormation's schema refuses the property.
UNTAGGABLE = ["AWS::RDS::DBProxyTargetGroup"]


def build(
    context: Mapping[str, Any] | None = None,
    *,
    outdir: Path | None = None,
    functions: Path = FUNCTIONS,
) -> cdk.App:
    """Make the app for one deployment; nothing is looked up in any account.

    Raises:
        ConfigError: the context asks for something that cannot be deployed.
    """
    app = cdk.App(context=dict(context or {}), outdir=str(outdir) if outdir else None)
    config = Config.from_context(app.node.get_all_context())
    stack = BrokerStack(app, "Broker", config=config, functions=functions)
    for tag, value in (
        ("application", "effect-broker"),
        ("environment", config.environment),
    ):
        cdk.Tags.of(stack).add(tag, value, exclude_resource_types=UNTAGGABLE)
    if not config.local:
        cdk.Validations.of(app).add_plugins(cdk_nag.AwsSolutionsChecks(app))
    return app


if __name__ == "__main__":
    build().synth()
