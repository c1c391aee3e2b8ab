"""Task tokens of Step Functions: answered, or found to be waited for no more."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from types_boto3_stepfunctions import SFNClient

NOBODY_WAITS: Final = ("TaskTimedOut", "TaskDoesNotExist", "InvalidToken")
"""The task has ended meanwhile, or was answered before: there is nothing to repeat."""

ERROR_LENGTH_MAX: Final = 256

_log: Final = logging.getLogger(__name__)


class StepFunctionsCallbacks:
    """Answers task tokens; what Step Functions does not take is tried again later."""

    def __init__(self, *, client: SFNClient | None = None) -> None:
        self._client = client
        self._connecting = threading.Lock()

    async def succeed(self, task_token: str, output: str) -> bool:
        """Say what became of it, as JSON."""
        return await asyncio.to_thread(
            self._tell,
            lambda client: client.send_task_success(taskToken=task_token, output=output),
        )

    async def end(self, task_token: str, error: str, cause: str) -> bool:
        """Say by which name it ended, and why."""
        return await asyncio.to_thread(
            self._tell,
            lambda client: client.send_task_failure(
                taskToken=task_token, error=error[:ERROR_LENGTH_MAX], cause=cause
            ),
        )

    def _tell(self, call: Callable[[SFNClient], Any]) -> bool:
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            call(self._connected())
        except ClientError as error:
            reason = error.response.get("Error", {}).get("Code", "unknown")
            if reason in NOBODY_WAITS:
                _log.info("nobody waits for a task token any more", extra={"why": reason})
                return True
            _log.warning("a task token was not answered", extra={"why": reason})
            return False
        except BotoCoreError as error:
            why = type(error).__name__
            _log.warning("a task token was not answered", extra={"why": why})
            return False
        return True

    def _connected(self) -> SFNClient:
        """Connect on first use: few invocations have anybody to answer."""
        with self._connecting:
            if self._client is None:
                import boto3
                from botocore.config import Config

                self._client = boto3.client(
                    "stepfunctions",
                    config=Config(
                        connect_timeout=2,
                        read_timeout=5,
                        retries={"total_max_attempts": 2, "mode": "standard"},
                    ),
                )
            return self._client
