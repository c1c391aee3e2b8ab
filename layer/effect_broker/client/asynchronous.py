"""The client: one method a use case, each a request out of `calls`."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from datetime import datetime, timedelta
from time import monotonic
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar
from uuid import UUID

import httpx2

from effect_broker.client import calls, sending
from effect_broker.client.answers import (
    Effect,
    ForkedHistory,
    History,
    InspectedEffect,
    Receipt,
    Submission,
    Tool,
)
from effect_broker.client.calls import WAIT_SECONDS_MAX, Call
from effect_broker.client.tool import Key, ToolCalls
from effect_broker.domain.errors import EffectBrokerError
from effect_broker.domain.intent import EffectRequest
from effect_broker.domain.status import EffectStatus

T = TypeVar("T")
P = ParamSpec("P")


class EffectBrokerClient:
    """Talks to one broker as one tenant.

    A request is repeated by itself only while the broker says nothing, or says that it
    cannot decide, and only where the repeat is safe by construction (`calls.REPEATS`);
    after `patience_seconds` the last error is raised. Zero repeats nothing.
    """

    def __init__(
        self,
        url: str,
        api_key: str,
        *,
        timeout_seconds: float = sending.TIMEOUT_SECONDS,
        patience_seconds: float = sending.PATIENCE_SECONDS,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        self._timeout_seconds = timeout_seconds
        self._patience_seconds = patience_seconds
        self._http = httpx2.AsyncClient(
            base_url=url,
            headers=sending.headers_of(api_key),
            follow_redirects=False,
            transport=transport,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def submit(
        self, request: EffectRequest, *, wait_seconds: int = 0
    ) -> Submission:
        """Reserve an effect, or tell what its operation key stands for already.

        The answer is held back until the effect is terminal or the wait is over, at most
        20 seconds. A running or unknown effect is an answer: read `status`, `outcome`.

        Raises:
            PayloadDrift: the key stands for another payload; read that effect.
            InvalidRequest, UnknownTool, Forbidden: nothing was stored.
            Unreachable, LedgerUnavailable: repeat with the same key, never another.
        """
        return await self._send(calls.submit(request, wait_seconds))

    async def wait_for(self, effect_id: UUID | str, *, seconds: float) -> InspectedEffect:
        """Return the effect once it is terminal, or as it stands after `seconds`."""
        until = monotonic() + seconds
        while True:
            left = min(max(0, int(until - monotonic())), WAIT_SECONDS_MAX)
            effect = await self._send(calls.get(effect_id, left))
            if effect.terminal or monotonic() >= until - 1:
                return effect

    async def get(self, effect_id: UUID | str) -> InspectedEffect:
        """Return an effect with its history and attempts.

        Raises:
            EffectNotFound: none with this id for this tenant.
        """
        return await self._send(calls.get(effect_id))

    async def effects(
        self,
        *,
        status: EffectStatus | str | None = None,
        contradicted: bool = False,
        tool: str | None = None,
        older_than: timedelta | None = None,
        operation_prefix: str | None = None,
        page_size: int = 50,
    ) -> AsyncIterator[Effect]:
        """Yield effects, newest first; `outcome_unknown` yields every unproved one."""
        cursor: str | None = None
        while True:
            page = await self._send(
                calls.page(
                    status=status,
                    contradicted=contradicted,
                    tool=tool,
                    older_than=older_than,
                    operation_prefix=operation_prefix,
                    limit=page_size,
                    cursor=cursor,
                )
            )
            for effect in page.effects:
                yield effect
            cursor = page.next_cursor
            if cursor is None:
                return

    async def history(
        self,
        effect_id: UUID | str,
        *,
        at_sequence: int | None = None,
        compare_to: int | None = None,
    ) -> History:
        """Return a history up to a point, and what differs from another."""
        return await self._send(calls.history(effect_id, at_sequence, compare_to))

    async def receipt(self, effect_id: UUID | str) -> Receipt:
        """Return the immutable receipt; reaches no target.

        Raises:
            ReceiptNotFound: there is none yet; says where the effect stands.
        """
        return await self._send(calls.receipt(effect_id))

    async def tools(self) -> Sequence[Tool]:
        """Return every tool that may be named."""
        return await self._send(calls.tools())

    async def reconcile(self, effect_id: UUID | str) -> Effect:
        """Ask for reconciliation; never forces a retry."""
        return await self._send(calls.reconcile(effect_id))

    async def resolve(
        self,
        effect_id: UUID | str,
        *,
        decision: str,
        reason: str,
        evidence: Mapping[str, Any] | str,
        expected_version: int,
        decision_id: str,
        observed_at: datetime | None = None,
        external_id: str | None = None,
        output: Any = None,
    ) -> Effect:
        """Record an operator's finding once, against the version that was read.

        Raises:
            VersionConflict: the effect has moved on; read it and decide anew.
            DecisionRefused: the rules do not allow it, or not before `not_before`.
            Forbidden: the key lacks the scope operate.
        """
        return await self._send(
            calls.resolve(
                effect_id,
                decision=decision,
                reason=reason,
                evidence=evidence,
                expected_version=expected_version,
                decision_id=decision_id,
                observed_at=observed_at,
                external_id=external_id,
                output=output,
            )
        )

    async def compensate(
        self,
        effect_id: UUID | str,
        compensated_by: UUID | str,
        *,
        reason: str,
        expected_version: int | None = None,
    ) -> Effect:
        """Link a succeeded effect to the succeeded effect that undid it."""
        return await self._send(
            calls.compensate(effect_id, compensated_by, reason, expected_version)
        )

    async def fork(self, effect_id: UUID | str, *, at_sequence: int) -> ForkedHistory:
        """Go on from a point with the recorded answers; sends and writes nothing."""
        return await self._send(calls.fork(effect_id, at_sequence))

    async def fork_live(self, effect_id: UUID | str, operation_key: str) -> Submission:
        """Reserve the payload anew under another key: it may act at the target again."""
        return await self._send(calls.fork_live(effect_id, operation_key))

    def tool(
        self, name: str, *, key: Key | None = None, wait_seconds: int = WAIT_SECONDS_MAX
    ) -> Callable[[Callable[P, object]], Callable[P, Awaitable[Submission]]]:
        """Make a function's signature a tool of the broker; its body never runs.

        See `ToolCalls` for what `key` may be.
        """
        built = ToolCalls(name, key)

        def decorated(
            function: Callable[P, object],
        ) -> Callable[P, Awaitable[Submission]]:
            request = built.requests_of(function)

            @functools.wraps(function)
            async def submitting(*positional: P.args, **named: P.kwargs) -> Submission:
                wanted = request(*positional, **named)
                return await self.submit(wanted, wait_seconds=wait_seconds)

            return built.dress(submitting, function)

        return decorated

    async def _send(self, call: Call[T]) -> T:
        repeats = sending.Repeats(call, self._patience_seconds, monotonic())
        while True:
            answer = None
            try:
                answer = await self._exchange(call)
                return sending.read(call, answer)
            except EffectBrokerError as error:
                pause = repeats.pause_after(error, answer, monotonic())
                if pause is None:
                    raise
            await asyncio.sleep(pause)

    async def _exchange(self, call: Call[Any]) -> httpx2.Response:
        try:
            return await self._http.request(
                call.method,
                call.path,
                content=call.body,
                headers=dict(call.headers),
                timeout=sending.timeout_of(call, self._timeout_seconds),
            )
        except httpx2.HTTPError as error:
            raise sending.unreachable(error) from error
