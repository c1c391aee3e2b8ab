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
APPLICATION = "effect_broker_app"
POSTGRES = rds.AuroraPostgresEngineVersion.VER_17_9

# An idle broker still sweeps each minute, so it never pauses: half a unit is the floor.
CAPACITY_UNITS_MIN = 0.5
CAPACITY_UNITS_MAX = 8


class LedgerDatabase(Protocol):
    """What a function needs in order to reach the ledger."""

    @property
    def environment(self) -> Mapping[str, str]: ...

    @property
    def migration_environment(self) -> Mapping[str, str]: ...

    @property
    def network(self) -> Network | None: ...

    @property
    def dependables(self) -> list[IDependable]: ...

    def grant_connect(self, function: lambda_.IFunction) -> None: ...

    def grant_migrate(self, function: lambda_.IFunction) -> None: ...


class ExistingDatabase:
    """A database that this stack does not own, found by URL.

    Functions come in by `application_url` where there is one; then only what migrates has
    the owner's, and it gives the application's role the password that stands there.
    """

    def __init__(self, url: str, application_url: str | None):
        self.network: Network | None = None
        self.dependables: list[IDependable] = []
        self.environment: Mapping[str, str] = {
            "EFFECT_BROKER_DATABASE_URL": application_url or url
        }
        self.migration_environment: Mapping[str, str] = {
            "EFFECT_BROKER_DATABASE_URL": url,
            "EFFECT_BROKER_APP_DATABASE_URL": application_url or "",
        }

    def grant_connect(self, function: lambda_.IFunction) -> None:
        """Nothing to grant: whoever has the URL may connect."""

    def grant_migrate(self, function: lambda_.IFunction) -> None:
        """Nothing to grant: whoever has the URL may connect."""


class AuroraDatabase(Construct):
    """Aurora PostgreSQL Serverless v2: a writer and a reader that can replace it.

    Two credentials stand in Secrets Manager: the owner's, which only what migrates may
    read, and the application's, whose role the migration makes and gives its password.
    Neither is rotated by this stack: CDK's rotation brings a SAM transform, and so
    CAPABILITY_AUTO_EXPAND, into the template.
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
        owner = self.cluster.secret
        assert owner is not None, "generated credentials have a secret"
        self._owner = owner
        application_name = f"{secret_name}-app"
        self._application = rds.DatabaseSecret(
            self,
            "Application",
            username=APPLICATION,
            dbname=DATABASE_NAME,
            secret_name=application_name,
            encryption_key=key,
        ).attach(self.cluster)
        self.environment: Mapping[str, str] = {
            "EFFECT_BROKER_DATABASE_SECRET": application_name
        }
        self.migration_environment: Mapping[str, str] = {
            "EFFECT_BROKER_DATABASE_SECRET": secret_name,
            "EFFECT_BROKER_APP_DATABASE_SECRET": application_name,
        }
        self.dependables: list[IDependable] = [network, self.cluster]
        if proxy_name:
            self._add_proxy(network, proxy_name)
        self._acknowledge()

    def grant_connect(self, function: lambda_.IFunction) -> None:
        """Let one function come in as the application; its group opens the network."""
        self._application.grant_read(function)

    def grant_migrate(self, function: lambda_.IFunction) -> None:
        """Let one function come in as the owner, and read the application's secret."""
        self._owner.grant_read(function)
        self._application.grant_read(function)

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
            secrets=[self._owner, self._application],
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
        for secret in (self.cluster, self.node.find_child("Application")):
            acknowledge(
                secret,
                "AwsSolutions-SMG4",
                "rotation needs a SAM transform in CDK; docs say how to rotate by hand",
            )
        acknowledge(
            self.cluster,
            "AwsSolutions-RDS6",
            "functions authenticate with generated passwords over TLS",
        )
