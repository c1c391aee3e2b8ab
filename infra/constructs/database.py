"""The ledger's database: Aurora in production, a given URL in a local AWS."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_rds as rds
from constructs import Construct, IDependable

from infra.acknowledge import acknowledge
from infra.constructs.network import Network

DATABASE_NAME = "effect_broker"
POSTGRES = rds.AuroraPostgresEngineVersion.VER_17_9

# An idle broker still sweeps each minute, so it never pauses: half a unit is the floor.
CAPACITY_UNITS_MIN = 0.5
CAPACITY_UNITS_MAX = 8


class LedgerDatabase(Protocol):
    """What a function needs in order to reach the ledger."""

    @property
    def environment(self) -> Mapping[str, str]: ...

    @property
    def network(self) -> Network | None: ...

    @property
    def dependables(self) -> list[IDependable]: ...

    def grant_connect(self, function: lambda_.IFunction) -> None: ...


class ExistingDatabase:
    """A database that this stack does not own, found by URL."""

    def __init__(self, url: str):
        self.network: Network | None = None
        self.dependables: list[IDependable] = []
        self.environment: Mapping[str, str] = {"EFFECT_BROKER_DATABASE_URL": url}

    def grant_connect(self, function: lambda_.IFunction) -> None:
        """Nothing to grant: whoever has the URL may connect."""


class AuroraDatabase(Construct):
    """Aurora PostgreSQL Serverless v2: a writer and a reader that can replace it.

    The credentials stand in Secrets Manager and are not rotated by this stack: CDK's
    rotation brings a SAM transform, and so CAPABILITY_AUTO_EXPAND, into the template.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        network: Network,
        key: kms.IKey,
        secret_name: str,
        proxy_name: str | None,
    ):
        super().__init__(scope, construct_id)
        self.network: Network | None = network
        engine = rds.DatabaseClusterEngine.aurora_postgres(version=POSTGRES)
        self.cluster = rds.DatabaseCluster(
            self,
            "Cluster",
            engine=engine,
            credentials=rds.Credentials.from_generated_secret(
                "effect_broker", secret_name=secret_name, encryption_key=key
            ),
            default_database_name=DATABASE_NAME,
            writer=rds.ClusterInstance.serverless_v2("Writer"),
            readers=[rds.ClusterInstance.serverless_v2("Reader", scale_with_writer=True)],
            serverless_v2_min_capacity=CAPACITY_UNITS_MIN,
            serverless_v2_max_capacity=CAPACITY_UNITS_MAX,
            vpc=network.vpc,
            vpc_subnets=network.database_subnets,
            storage_encrypted=True,
            storage_encryption_key=key,
            backup=rds.BackupProps(retention=cdk.Duration.days(14)),
            copy_tags_to_snapshot=True,
            deletion_protection=True,
            removal_policy=cdk.RemovalPolicy.SNAPSHOT,
            cloudwatch_logs_exports=["postgresql"],
            parameter_group=self._parameters(engine),
        )
        self.cluster.connections.allow_default_port_from(network.function_group)
        self._secret = self.cluster.secret
        assert self._secret is not None, "generated credentials have a secret"
        self.environment: Mapping[str, str] = {
            "EFFECT_BROKER_DATABASE_SECRET": secret_name
        }
        self.dependables: list[IDependable] = [network, self.cluster]
        if proxy_name:
            self._add_proxy(network, proxy_name)
        self._acknowledge()

    def grant_connect(self, function: lambda_.IFunction) -> None:
        """Let one function read the credentials; the network lets it in by its group."""
        assert self._secret is not None
        self._secret.grant_read(function)

    def _parameters(self, engine: rds.IClusterEngine) -> rds.ParameterGroup:
        return rds.ParameterGroup(
            self,
            "Parameters",
            engine=engine,
            description="The ledger: TLS only, no values in the log, no idle snapshots",
            parameters={
                "rds.force_ssl": "1",
                "log_parameter_max_length": "0",
                "log_parameter_max_length_on_error": "0",
                # An idle transaction holds a snapshot, and claims slow down behind it.
                "idle_in_transaction_session_timeout": "60000",
            },
        )

    def _add_proxy(self, network: Network, name: str) -> None:
        proxy = self.cluster.add_proxy(
            "Proxy",
            db_proxy_name=name,
            secrets=[self.cluster.secret],  # type: ignore[list-item]
            vpc=network.vpc,
            vpc_subnets=network.database_subnets,
            require_tls=True,
        )
        proxy.connections.allow_from(network.function_group, ec2.Port.tcp(5432))
        self.environment = {
            **self.environment,
            "EFFECT_BROKER_DATABASE_HOST": proxy.endpoint,
        }
        self.dependables.append(proxy)

    def _acknowledge(self) -> None:
        acknowledge(
            self.cluster,
            "AwsSolutions-SMG4",
            "rotation needs a SAM transform in CDK; docs say how to rotate by hand",
        )
        acknowledge(
            self.cluster,
            "AwsSolutions-RDS6",
            "functions authenticate with the generated password over TLS",
        )
