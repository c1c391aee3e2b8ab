"""The schema upgrade that a deployment runs before traffic reaches new code."""

from __future__ import annotations

from collections.abc import Sequence

import aws_cdk as cdk
from aws_cdk import aws_lambda as lambda_
from aws_cdk import triggers
from constructs import Construct, IDependable


class Migration(Construct):
    """Runs the migrate function in every deployment that changes it.

    A failed upgrade fails the deployment and leaves the aliases where they were. It
    waits for whatever the ledger stands on, and what must come after it is named by
    alias and mapping: naming functions makes a circle through the key's policy.
    CDK's trigger invokes without a payload, so that the event is `{}`: an upgrade.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        function: lambda_.Function,
        timeout: cdk.Duration,
        after: Sequence[IDependable],
    ):
        super().__init__(scope, construct_id)
        self._trigger = triggers.Trigger(
            self,
            "Upgrade",
            handler=function,
            timeout=timeout,
            invocation_type=triggers.InvocationType.REQUEST_RESPONSE,
            execute_on_handler_change=True,
        )
        for dependency in after:
            self._trigger.node.add_dependency(dependency)

    def before(self, *later: Construct) -> None:
        """Hold these back until the schema is current."""
        self._trigger.execute_before(*later)
