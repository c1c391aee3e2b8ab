"""The sweep: the scheduled pass that finds what no nudge found."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_scheduler as scheduler
from aws_cdk import aws_scheduler_targets as targets
from constructs import Construct

SWEEP_EVENT = {"operation": "sweep"}
SWEEP_INTERVAL = cdk.Duration.minutes(1)


class Sweep(Construct):
    """One invocation a minute with `{"operation": "sweep"}`.

    A sweep that could not be delivered is not delivered later: the next one is due.
    """

    def __init__(
        self, scope: Construct, construct_id: str, *, name: str, target: lambda_.Alias
    ):
        super().__init__(scope, construct_id)
        scheduler.Schedule(
            self,
            "Schedule",
            schedule_name=name,
            description="finds due effects that no nudge announced",
            schedule=scheduler.ScheduleExpression.rate(SWEEP_INTERVAL),
            target=targets.LambdaInvoke(
                target,
                input=scheduler.ScheduleTargetInput.from_object(SWEEP_EVENT),
                retry_attempts=0,
                max_event_age=SWEEP_INTERVAL,
            ),
        )
