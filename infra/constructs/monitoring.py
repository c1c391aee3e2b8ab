"""Alarms for what no caller would notice, and the dashboard to read when one rings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import aws_cdk as cdk
from aws_cdk import aws_apigatewayv2 as apigateway
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sns as sns
from constructs import Construct

from infra.constructs.database import AuroraDatabase
from infra.constructs.nudge_queue import NudgeQueue

OLDEST_UNKNOWN = (
    'SELECT MAX("effect_broker_unknown_oldest_age_seconds") FROM "EffectBroker"'
)
PERIOD = cdk.Duration.minutes(5)

# Contracts ask for an alert after minutes (`unknown_alert_after`); this is the backstop
# for all of them together, late enough for a slow settlement to have passed.
UNKNOWN_AGE_SECONDS_MAX = 900

_IGNORE = cloudwatch.TreatMissingData.NOT_BREACHING


class Monitoring(Construct):
    """Alarms to one topic, where one is named, and one dashboard.

    The oldest unknown effect is read by a query over all contracts and tools, since an
    alarm on one dimension set would be silent about a contract published tomorrow.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        name: str,
        functions: Mapping[str, lambda_.Function],
        swept: Sequence[str],
        queues: Mapping[str, NudgeQueue],
        api: apigateway.HttpApi,
        database: AuroraDatabase | None,
        connections_max: int,
        topic_arn: str | None,
    ):
        super().__init__(scope, construct_id)
        self._prefix = name
        topic = sns.Topic.from_topic_arn(self, "Topic", topic_arn) if topic_arn else None
        self._action = actions.SnsAction(topic) if topic else None
        self._oldest_unknown()
        for key, function in functions.items():
            self._function(key, function)
        for key in swept:
            self._sweep_stopped(key, functions[key])
        for key, queue in queues.items():
            self._dead_letters(key, queue)
        if database:
            self._connections(database, connections_max)
        self._dashboard(name, functions, queues, api, database)

    def _alarm(
        self,
        name: str,
        metric: cloudwatch.IMetric,
        *,
        above: float = 0,
        why: str,
        missing: cloudwatch.TreatMissingData = _IGNORE,
        comparison: cloudwatch.ComparisonOperator = (
            cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD
        ),
    ) -> None:
        alarm = cloudwatch.Alarm(
            self,
            name.title().replace("-", ""),
            alarm_name=f"{self._prefix}-{name}",
            alarm_description=why,
            metric=metric,
            threshold=above,
            evaluation_periods=1,
            comparison_operator=comparison,
            treat_missing_data=missing,
        )
        if self._action:
            alarm.add_alarm_action(self._action)
            alarm.add_ok_action(self._action)

    def _oldest_unknown(self) -> None:
        self._unknown_age = cloudwatch.MathExpression(
            expression=OLDEST_UNKNOWN,
            using_metrics={},
            label="oldest unknown effect (seconds)",
            period=PERIOD,
        )
        self._alarm(
            "oldest-unknown",
            self._unknown_age,
            above=UNKNOWN_AGE_SECONDS_MAX,
            why="An outcome has been unknown for too long: list unknown effects.",
        )

    def _function(self, key: str, function: lambda_.Function) -> None:
        self._alarm(
            f"{key}-errors",
            function.metric_errors(period=PERIOD),
            why=f"{key} raised or timed out: read its log.",
        )
        self._alarm(
            f"{key}-throttles",
            function.metric_throttles(period=PERIOD),
            why=f"{key} has reached its reserved concurrency.",
        )

    def _sweep_stopped(self, key: str, function: lambda_.Function) -> None:
        self._alarm(
            f"{key}-sweep-stopped",
            function.metric_invocations(period=PERIOD),
            above=1,
            comparison=cloudwatch.ComparisonOperator.LESS_THAN_THRESHOLD,
            missing=cloudwatch.TreatMissingData.BREACHING,
            why=f"{key} has not run for five minutes: a lost nudge is found by nobody.",
        )

    def _dead_letters(self, key: str, queue: NudgeQueue) -> None:
        self._alarm(
            f"{key}-dead-letters",
            queue.dead_letters.metric_approximate_number_of_messages_visible(
                period=PERIOD, statistic="Maximum"
            ),
            why=f"A {key} nudge failed on every delivery; the sweep has its effect.",
        )

    def _connections(self, database: AuroraDatabase, connections_max: int) -> None:
        self._alarm(
            "database-connections",
            database.cluster.metric_database_connections(
                period=PERIOD, statistic="Maximum"
            ),
            above=connections_max,
            why="More connections than all functions together may open.",
        )

    def _dashboard(
        self,
        name: str,
        functions: Mapping[str, lambda_.Function],
        queues: Mapping[str, NudgeQueue],
        api: apigateway.HttpApi,
        database: AuroraDatabase | None,
    ) -> None:
        used = list(functions.values())
        rows = [
            _graph("Oldest unknown effect", [self._unknown_age]),
            _graph("Requests", [api.metric_count(), api.metric_server_error()]),
            _graph("Latency", [api.metric_latency(statistic="p99")]),
            _graph("Errors", [f.metric_errors() for f in used]),
            _graph("Duration, p99", [f.metric_duration(statistic="p99") for f in used]),
            _graph("Environments", [f.metric("ConcurrentExecutions") for f in used]),
            _graph(
                "Oldest nudge",
                [
                    q.queue.metric_approximate_age_of_oldest_message()
                    for q in queues.values()
                ],
            ),
        ]
        if database:
            cluster = database.cluster
            rows.append(
                _graph(
                    "Database",
                    [
                        cluster.metric_database_connections(),
                        cluster.metric_serverless_database_capacity(),
                    ],
                )
            )
        dashboard = cloudwatch.Dashboard(self, "Dashboard", dashboard_name=name)
        for first in range(0, len(rows), 2):
            dashboard.add_widgets(*rows[first : first + 2])


def _graph(title: str, metrics: list[cloudwatch.IMetric]) -> cloudwatch.GraphWidget:
    return cloudwatch.GraphWidget(title=title, left=metrics, width=12)
