"""Nudges over SQS: an effect id and nothing else, sent after the commit, gladly lost."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import threading
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Final
from uuid import UUID

if TYPE_CHECKING:
    from types_boto3_sqs import SQSClient
    from types_boto3_sqs.type_defs import SendMessageBatchRequestEntryTypeDef

DELAY_SECONDS_MAX: Final = 900
"""SQS holds a message no longer; a hint that comes early finds nothing due."""

BATCH_MAX: Final = 10
"""Entries of one SendMessageBatch call."""

_log = logging.getLogger(__name__)


def nudge_body(effect_id: UUID) -> str:
    """Write a nudge: it names an effect, and carries no authority over it."""
    return json.dumps({"effect_id": str(effect_id)})


def nudged_effect(body: str) -> UUID:
    """Read a nudge.

    Raises:
        ValueError: it is none, and will not become one by being delivered again.
    """
    document = json.loads(body)
    if not isinstance(document, dict) or set(document) != {"effect_id"}:
        raise ValueError("not a nudge")
    return UUID(str(document["effect_id"]))


class SqsNudger:
    """Hints at due effects; what SQS does not take is logged and left to the sweep.

    Without a queue URL that kind of hint is not sent at all.
    """

    def __init__(
        self,
        *,
        dispatch_queue_url: str | None,
        reconcile_queue_url: str | None,
        client: SQSClient | None = None,
    ) -> None:
        self._dispatch_queue_url = dispatch_queue_url
        self._reconcile_queue_url = reconcile_queue_url
        self._client = client
        self._connecting = threading.Lock()

    async def dispatch(
        self, effect_ids: Sequence[UUID], *, delay: timedelta = timedelta(0)
    ) -> None:
        """Hint that effects may be dispatched after `delay`."""
        await self._send(self._dispatch_queue_url, "dispatch", effect_ids, delay)

    async def reconcile(
        self, effect_ids: Sequence[UUID], *, delay: timedelta = timedelta(0)
    ) -> None:
        """Hint that effects may be reconciled after `delay`."""
        await self._send(self._reconcile_queue_url, "reconcile", effect_ids, delay)

    async def _send(
        self, url: str | None, queue: str, effect_ids: Sequence[UUID], delay: timedelta
    ) -> None:
        if url is None or not effect_ids:
            return
        seconds = delay_seconds(delay)
        for start in range(0, len(effect_ids), BATCH_MAX):
            batch = effect_ids[start : start + BATCH_MAX]
            await asyncio.to_thread(self._send_batch, url, queue, batch, seconds)

    def _send_batch(
        self, url: str, queue: str, effect_ids: Sequence[UUID], seconds: int
    ) -> None:
        from botocore.exceptions import BotoCoreError, ClientError

        entries: list[SendMessageBatchRequestEntryTypeDef] = [
            {
                "Id": str(index),
                "MessageBody": nudge_body(effect_id),
                "DelaySeconds": seconds,
            }
            for index, effect_id in enumerate(effect_ids)
        ]
        try:
            answer = self._connected().send_message_batch(QueueUrl=url, Entries=entries)
        except ClientError as error:
            reason = error.response.get("Error", {}).get("Code", "unknown")
            _lost(queue, len(entries), reason)
        except BotoCoreError as error:
            _lost(queue, len(entries), type(error).__name__)
        else:
            failed = answer.get("Failed", [])
            if failed:
                _lost(queue, len(failed), failed[0]["Code"])

    def _connected(self) -> SQSClient:
        """Connect on first use; a submit must not wait long for a hint."""
        with self._connecting:
            if self._client is None:
                import boto3
                from botocore.config import Config

                self._client = boto3.client(
                    "sqs",
                    config=Config(
                        connect_timeout=1,
                        read_timeout=2,
                        retries={"total_max_attempts": 2, "mode": "standard"},
                    ),
                )
            return self._client


def delay_seconds(delay: timedelta) -> int:
    """Round up to whole seconds: no hint comes early, as far as SQS can hold it."""
    return min(max(0, math.ceil(delay.total_seconds())), DELAY_SECONDS_MAX)


def _lost(queue: str, count: int, reason: str) -> None:
    _log.warning(
        "nudges not sent; the sweep will find the work",
        extra={"queue": queue, "count": count, "reason": reason},
    )
