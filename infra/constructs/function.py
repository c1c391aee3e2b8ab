"""One Lambda function of the broker, and the alias through which it is called."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct

from infra.acknowledge import acknowledge
from infra.config import TENANT_ALIAS_PREFIX
from infra.constructs.network import Network
from infra.packaging import HANDLER

LIVE = "live"


@dataclass(frozen=True)
class FunctionDefaults:
    """What every function of one deployment has in common."""

    prefix: str
    architecture: lambda_.Architecture
    layers: list[lambda_.ILayerVersion]
    network: Network | None
    environment: Mapping[str, str]
    retention: logs.RetentionDays
    tracing: bool = False


@dataclass(frozen=True)
class FunctionProps:
    """What one function has for itself.

    `reserved` bounds its environments, and with them the ledger's connections.
    """

    name: str
    code: lambda_.Code
    description: str
    timeout: cdk.Duration
    reserved: int
    memory_mebibytes: int = (
        1024  # processor time comes with memory: imports are the cold start
    )
    environment: Mapping[str, str] = field(default_factory=dict)


class BrokerFunction(Construct):
    """A function that Lambda itself never runs a second time.

    Retries of asynchronous events are 0 on the function and on each alias (the setting
    is per qualifier): the ledger's claim decides what runs again, never the platform.
    Callers use the alias `live`, which moves only after the schema has been migrated.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        defaults: FunctionDefaults,
        props: FunctionProps,
    ):
        super().__init__(scope, construct_id)
        function_name = f"{defaults.prefix}-{props.name}"
        self._log_group = logs.LogGroup(
            self,
            "Logs",
            log_group_name=f"/aws/lambda/{function_name}",
            retention=defaults.retention,
            removal_policy=cdk.RemovalPolicy.DESTROY,
        )
        network = defaults.network
        self.role = self._make_role(in_network=network is not None)
        self.function = lambda_.Function(
            self,
            "Function",
            function_name=function_name,
            description=props.description,
            runtime=lambda_.Runtime.PYTHON_3_13,
            architecture=defaults.architecture,
            handler=HANDLER,
            code=props.code,
            layers=defaults.layers,
            role=self.role,
            log_group=self._log_group,
            timeout=props.timeout,
            memory_size=props.memory_mebibytes,
            reserved_concurrent_executions=props.reserved,
            retry_attempts=0,
            tracing=lambda_.Tracing.ACTIVE
            if defaults.tracing
            else lambda_.Tracing.DISABLED,
            environment={**defaults.environment, **props.environment},
            vpc=network.vpc if network else None,
            vpc_subnets=network.function_subnets if network else None,
            security_groups=[network.function_group] if network else None,
        )
        acknowledge(
            self.function,
            "AwsSolutions-L1",
            "the layer is built and measured for this runtime",
        )
        self._live: lambda_.Alias | None = None

    @property
    def live(self) -> lambda_.Alias:
        """The alias that traffic goes through."""
        if self._live is None:
            self._live = self.function.add_alias(LIVE, retry_attempts=0)
        return self._live

    def add_tenant(self, slug: str) -> lambda_.Alias:
        """The alias that binds direct calls to a tenant; IAM says who may use it."""
        return self.function.add_alias(f"{TENANT_ALIAS_PREFIX}{slug}", retry_attempts=0)

    def grant_task_tokens(self) -> None:
        """Let the function answer workflows that wait for an effect."""
        self.role.add_to_policy(
            iam.PolicyStatement(
                actions=["states:SendTaskSuccess", "states:SendTaskFailure"],
                resources=["*"],
            )
        )
        acknowledge(
            self.role,
            "AwsSolutions-IAM5[Resource::*]",
            "a task token names no resource; it is its own right",
        )

    def _make_role(self, *, in_network: bool) -> iam.Role:
        role = iam.Role(
            self, "Role", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com")
        )
        self._log_group.grant_write(role)
        if in_network:
            managed = "service-role/AWSLambdaVPCAccessExecutionRole"
            role.add_managed_policy(
                iam.ManagedPolicy.from_aws_managed_policy_name(managed)
            )
            acknowledge(
                role,
                f"AwsSolutions-IAM4[Policy::arn:<AWS::Partition>:iam::aws:policy/{managed}]",
                "network interfaces have no ARN to name before they exist",
            )
        return role
