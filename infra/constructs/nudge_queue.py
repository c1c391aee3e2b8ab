"""A queue of nudges: effect ids that may be lost, doubled or late without consequence."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs
from constructs import Construct

BATCH_SIZE = 10
BATCHING_WINDOW = cdk.Duration.seconds(0)  # a nudge is there to save time
DELIVERIES_MAX = 5
VISIBILITY_FACTOR = 6  # AWS's advice: room for throttled polls before a message returns


class NudgeQueue(Construct):
    """A queue with its dead-letter queue, read by one function with partial answers.

    A message is hidden for six times the function's timeout and the batching window, so
    that no batch is delivered again while it is still being worked on.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        name: str,
        function_timeout: cdk.Duration,
    ):
        super().__init__(scope, construct_id)
        self.dead_letters = sqs.Queue(
            self,
            "DeadLetters",
            queue_name=f"{name}-dead-letters",
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            enforce_ssl=True,
            retention_period=cdk.Duration.days(14),
        )
        hidden = (
            function_timeout.to_seconds() * VISIBILITY_FACTOR
            + BATCHING_WINDOW.to_seconds()
        )
        self.queue = sqs.Queue(
            self,
            "Queue",
            queue_name=name,
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            enforce_ssl=True,
            visibility_timeout=cdk.Duration.seconds(hidden),
            dead_letter_queue=sqs.DeadLetterQueue(
                queue=self.dead_letters, max_receive_count=DELIVERIES_MAX
            ),
        )

    def consume(
        self, target: lambda_.Alias, *, environments_max: int
    ) -> lambda_.EventSourceMapping:
        """Feed an alias; a message that fails alone is returned alone."""
        self.queue.grant_consume_messages(target)
        return lambda_.EventSourceMapping(
            self,
            "Mapping",
            target=target,
            event_source_arn=self.queue.queue_arn,
            batch_size=BATCH_SIZE,
            max_batching_window=BATCHING_WINDOW,
            max_concurrency=environments_max,
            report_batch_item_failures=True,
        )
