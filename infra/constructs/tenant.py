"""A tenant's way in for direct calls: an alias, and a policy that opens it alone."""

from __future__ import annotations

from aws_cdk import aws_iam as iam
from constructs import Construct

from infra.constructs.function import BrokerFunction


class TenantAlias(Construct):
    """Binds whoever may invoke one alias to one tenant.

    Attach `policy` to the role of a state machine or of a function that submits for the
    tenant. Nobody is attached here: who acts for a tenant is the deployment's to say.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        slug: str,
        prefix: str,
        submit: BrokerFunction,
    ):
        super().__init__(scope, construct_id)
        self.alias = submit.add_tenant(slug)
        self.policy = iam.ManagedPolicy(
            self,
            "Policy",
            managed_policy_name=f"{prefix}-submit-as-{slug}",
            description=f"May submit, read and ask for reconciliation as {slug}",
            statements=[
                iam.PolicyStatement(
                    actions=["lambda:InvokeFunction"],
                    resources=[self.alias.function_arn],
                )
            ],
        )
