"""The broker's stack: what design.md draws, and nothing that decides anything."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import aws_cdk as cdk
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct

from infra.capacity import LOCAL_CAPACITY, PRODUCTION_CAPACITY
from infra.config import Config
from infra.constructs.database import AuroraDatabase, ExistingDatabase, LedgerDatabase
from infra.constructs.function import BrokerFunction, FunctionDefaults, FunctionProps
from infra.constructs.http_api import HttpApi
from infra.constructs.mcp_url import McpUrl
from infra.constructs.migration import Migration
from infra.constructs.monitoring import Monitoring
from infra.constructs.network import Network
from infra.constructs.nudge_queue import NudgeQueue
from infra.constructs.secrets import BrokerSecrets
from infra.constructs.sweep import Sweep
from infra.constructs.tenant import TenantAlias
from infra.packaging import FUNCTIONS, function_code, staged_function_code

# submit only reserves; the gateway gives up after 29 s, and so does the function.
SUBMIT_TIMEOUT = cdk.Duration.seconds(29)
# A worker claims only what the rest of its invocation can finish.
WORKER_TIMEOUT = cdk.Duration.seconds(60)
MIGRATE_TIMEOUT = cdk.Duration.minutes(15)


class BrokerStack(cdk.Stack):
    """Everything that one deployment consists of.

    A local deployment differs in what it stands on (a given database, no layer, no
    alarms), never in how the parts are connected.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        config: Config,
        functions: Path = FUNCTIONS,
    ):
        super().__init__(
            scope,
            construct_id,
            stack_name=config.stack_name,
            description="effect-broker: intents before calls, receipts after them",
            termination_protection=not config.local,
        )
        self._config = config
        self._sources = functions
        self._capacity = LOCAL_CAPACITY if config.local else PRODUCTION_CAPACITY
        self._retention = (
            logs.RetentionDays.ONE_WEEK
            if config.local
            else logs.RetentionDays.THREE_MONTHS
        )
        self._removal = (
            cdk.RemovalPolicy.DESTROY if config.local else cdk.RemovalPolicy.RETAIN
        )
        self._secrets = BrokerSecrets(
            self,
            "Secrets",
            prefix=config.secrets_prefix,
            target_prefix=config.target_secrets_prefix,
            removal_policy=self._removal,
        )
        self._database = self._make_database()
        self._queues = {
            "dispatch": self._make_queue("Dispatch"),
            "reconcile": self._make_queue("Reconcile"),
        }
        self._defaults = self._make_defaults()
        self._make_functions()
        self._connect()
        self._outputs()

    def _make_database(self) -> LedgerDatabase:
        config = self._config
        if config.database_url:
            return ExistingDatabase(config.database_url, config.app_database_url)
        network = Network(self, "Network", retention=self._retention)
        return AuroraDatabase(
            self,
            "Database",
            network=network,
            key=self._secrets.key,
            secret_name=f"{config.secrets_prefix}database",
            proxy_name=config.stack_name if config.proxy else None,
        )

    def _make_queue(self, name: str) -> NudgeQueue:
        return NudgeQueue(
            self,
            f"{name}Queue",
            name=f"{self._config.stack_name}-{name.lower()}",
            function_timeout=WORKER_TIMEOUT,
        )

    def _make_defaults(self) -> FunctionDefaults:
        config = self._config
        arm = config.architecture == "arm64"
        architecture = lambda_.Architecture.ARM_64 if arm else lambda_.Architecture.X86_64
        layers: list[lambda_.ILayerVersion] = []
        if config.layer:
            layers.append(
                lambda_.LayerVersion(
                    self,
                    "Layer",
                    description="effect_broker and what it imports",
                    code=lambda_.Code.from_asset(str(config.layer)),
                    compatible_runtimes=[lambda_.Runtime.PYTHON_3_13],
                    compatible_architectures=[architecture],
                )
            )
        return FunctionDefaults(
            prefix=config.stack_name,
            architecture=architecture,
            layers=layers,
            network=self._database.network,
            retention=self._retention,
            tracing=config.tracing,
            environment={
                **self._database.environment,
                "EFFECT_BROKER_ENVIRONMENT": "local" if config.local else "production",
                "EFFECT_BROKER_LOG_LEVEL": config.log_level,
                "EFFECT_BROKER_KEYRING_SECRET": self._secrets.keyring_name,
            },
        )

    def _make_functions(self) -> None:
        nudges = {
            "EFFECT_BROKER_DISPATCH_QUEUE_URL": self._queues["dispatch"].queue.queue_url,
            "EFFECT_BROKER_RECONCILE_QUEUE_URL": self._queues[
                "reconcile"
            ].queue.queue_url,
        }
        targets = {
            **nudges,
            "EFFECT_BROKER_SECRETS": "aws",
            "EFFECT_BROKER_SECRETS_PREFIX": self._config.target_secrets_prefix,
        }
        capacity = self._capacity
        self.submit = self._make_function(
            "submit",
            "Reserves effects and answers for them",
            SUBMIT_TIMEOUT,
            capacity.submit,
            {**nudges, **self._callers()},
        )
        self.mcp = self._make_function(
            "mcp",
            "Serves the contracts' tools to MCP clients",
            SUBMIT_TIMEOUT,
            capacity.mcp,
            {**nudges, **self._callers()},
        )
        self.dispatch = self._make_function(
            "dispatch", "Sends what is due", WORKER_TIMEOUT, capacity.dispatch, targets
        )
        self.reconcile = self._make_function(
            "reconcile",
            "Asks targets about lost answers",
            WORKER_TIMEOUT,
            capacity.reconcile,
            targets,
        )
        self.migrate = self._make_function(
            "migrate",
            "Upgrades the schema, makes tenants and keys",
            MIGRATE_TIMEOUT,
            capacity.migrate,
            {**self._database.migration_environment, **self._contracts()},
        )

    def _make_function(
        self,
        name: str,
        description: str,
        timeout: cdk.Duration,
        reserved: int,
        environment: Mapping[str, str],
    ) -> BrokerFunction:
        config = self._config
        bundled = name == "migrate" and config.contracts is not None and not config.local
        code = (
            staged_function_code(self._sources / name, {"contracts": config.contracts})
            if bundled and config.contracts
            else function_code(self._sources / name)
        )
        function = BrokerFunction(
            self,
            name.title(),
            defaults=self._defaults,
            props=FunctionProps(
                name=name,
                code=code,
                description=f"{description} {config.revision}".strip(),
                timeout=timeout,
                reserved=reserved,
                environment=environment,
            ),
        )
        if name == "migrate":
            self._database.grant_migrate(function.function)
        else:
            self._database.grant_connect(function.function)
        self._secrets.grant_keyring(function.function)
        return function

    def _callers(self) -> dict[str, str]:
        """Say what callers of the HTTP API are held to."""
        config = self._config
        told = {
            "EFFECT_BROKER_RATE_LIMIT": config.rate_limit,
            "EFFECT_BROKER_CORS_ORIGINS": config.cors_origins,
        }
        return {name: value for name, value in told.items() if value}

    def _contracts(self) -> dict[str, str]:
        contracts = self._config.contracts
        if contracts is None:
            return {}
        where = str(contracts) if self._config.local else "/var/task/contracts"
        return {"EFFECT_BROKER_CONTRACTS": where}

    def _connect(self) -> None:
        for sender in (self.submit, self.mcp, self.dispatch, self.reconcile):
            for nudged in self._queues.values():
                nudged.queue.grant_send_messages(sender.function)
        migration = Migration(
            self,
            "Migration",
            function=self.migrate.function,
            timeout=MIGRATE_TIMEOUT,
            after=self._database.dependables,
        )
        workers: list[tuple[Literal["dispatch", "reconcile"], BrokerFunction]] = [
            ("dispatch", self.dispatch),
            ("reconcile", self.reconcile),
        ]
        for name, worker in workers:
            self._secrets.grant_targets(worker.role)
            worker.grant_task_tokens()
            Sweep(
                self,
                f"{name.title()}Sweep",
                name=f"{self._config.stack_name}-{name}-sweep",
                target=worker.live,
            )
            mapping = self._queues[name].consume(
                worker.live,
                environments_max=self._capacity.queue_concurrency(name),
            )
            migration.before(worker.live, mapping)
        self.api = HttpApi(
            self,
            "HttpApi",
            name=self._config.stack_name,
            target=self.submit.live,
            retention=self._retention,
        )
        self.mcp_url = McpUrl(self, "McpEndpoint", target=self.mcp.live)
        tenants = [
            TenantAlias(
                self,
                f"Tenant{slug.title()}",
                slug=slug,
                prefix=self._config.stack_name,
                submit=self.submit,
            )
            for slug in self._config.tenants
        ]
        aliases = [tenant.alias for tenant in tenants]
        migration.before(self.submit.live, self.mcp.live, *aliases)
        if not self._config.local:
            self._monitor()

    def _monitor(self) -> None:
        database = self._database
        Monitoring(
            self,
            "Monitoring",
            name=self._config.stack_name,
            functions={
                "submit": self.submit.function,
                "mcp": self.mcp.function,
                "dispatch": self.dispatch.function,
                "reconcile": self.reconcile.function,
                "migrate": self.migrate.function,
            },
            swept=["dispatch", "reconcile"],
            queues=self._queues,
            api=self.api.api,
            database=database if isinstance(database, AuroraDatabase) else None,
            connections_max=self._capacity.connections,
            topic_arn=self._config.alarm_topic_arn,
        )

    def _outputs(self) -> None:
        outputs = {
            "ApiId": self.api.api.api_id,
            "ApiUrl": self.api.api.api_endpoint,
            "McpUrl": self.mcp_url.url.url,
            "SubmitFunction": self.submit.function.function_name,
            "McpFunction": self.mcp.function.function_name,
            "DispatchFunction": self.dispatch.function.function_name,
            "ReconcileFunction": self.reconcile.function.function_name,
            "MigrateFunction": self.migrate.function.function_name,
            "DispatchQueueUrl": self._queues["dispatch"].queue.queue_url,
            "ReconcileQueueUrl": self._queues["reconcile"].queue.queue_url,
            "KeyringSecret": self._secrets.keyring_name,
            "TargetSecretsPrefix": self._config.target_secrets_prefix,
        }
        for name, value in outputs.items():
            cdk.CfnOutput(self, name, value=value)
