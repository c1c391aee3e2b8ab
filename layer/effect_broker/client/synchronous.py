"""The sync form: the same requests, sent by a thread that waits."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from time import monotonic, sleep
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


class SyncEffectBrokerClient:
    """`EffectBrokerClient` for code that does not run on an event loop; see there."""

    def __init__(
        self,
        url: str,
        api_key: str,
        *,
        timeout_seconds: float = sending.TIMEOUT_SECONDS,
        patience_seconds: float = sending.PATIENCE_SECONDS,
        transport: httpx2.BaseTransport | None = None,
    ) -> None:
        self._timeout_seconds = timeout_seconds
        self._patience_seconds = patience_seconds
        self._http = httpx2.Client(
            base_url=url,
            headers=sending.headers_of(api_key),
            follow_redirects=False,
            transport=transport,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def submit(self, request: EffectRequest, *, wait_seconds: int = 0) -> Submission:
        """Reserve an effect, or tell what its operation key stands for already.

        The answer is held back until the effect is terminal or the wait is over, at most
        20 seconds. A running or unknown effect is an answer: read `status`, `outcome`.

        Raises:
            PayloadDrift: the key stands for another payload; read that effect.
            InvalidRequest, UnknownTool, Forbidden: nothing was stored.
            Unreachable, LedgerUnavailable: repeat with the same key, never another.
        """
        return self._send(calls.submit(request, wait_seconds))

    def wait_for(self, effect_id: UUID | str, *, seconds: float) -> InspectedEffect:
        """Return the effect once it is terminal, or as it stands after `seconds`."""
        until = monotonic() + seconds
        while True:
            left = min(max(0, int(until - monotonic())), WAIT_SECONDS_MAX)
            effect = self._send(calls.get(effect_id, left))
            if effect.terminal or monotonic() >= until - 1:
                return effect

    def get(self, effect_id: UUID | str) -> InspectedEffect:
        """Return an effect with its history and attempts.

        Raises:
            EffectNotFound: none with this id for this tenant.
        """
        return self._send(calls.get(effect_id))

    def effects(
        self,
        *,
        status: EffectStatus | str | None = None,
        contradicted: bool = False,
        tool: str | None = None,
        older_than: timedelta | None = None,
        operation_prefix: str | None = None,
        page_size: int = 50,
    ) -> Iterator[Effect]:
        """Yield effects, newest first; `outcome_unknown` yields every unproved one."""
        cursor: str | None = None
        while True:
            page = self._send(
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
            yield from page.effects
            cursor = page.next_cursor
            if cursor is None:
                return

    def history(
        self,
        effect_id: UUID | str,
        *,
        at_sequence: int | None = None,
        compare_to: int | None = None,
    ) -> History:
        """Return a history up to a point, and what differs from another."""
        return self._send(calls.history(effect_id, at_sequence, compare_to))

    def receipt(self, effect_id: UUID | str) -> Receipt:
        """Return the immutable receipt; reaches no target.

        Raises:
            ReceiptNotFound: there is none yet; says where the effect stands.
        """
        return self._send(calls.receipt(effect_id))

    def tools(self) -> Sequence[Tool]:
        """Return every tool that may be named."""
        return self._send(calls.tools())

    def reconcile(self, effect_id: UUID | str) -> Effect:
        """Ask for reconciliation; never forces a retry."""
        return self._send(calls.reconcile(effect_id))

    def resolve(
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
        return self._send(
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

    def compensate(
        self,
        effect_id: UUID | str,
        compensated_by: UUID | str,
        *,
        reason: str,
        expected_version: int | None = None,
    ) -> Effect:
        """Link a succeeded effect to the succeeded effect that undid it."""
        return self._send(
            calls.compensate(effect_id, compensated_by, reason, expected_version)
        )

    def fork(self, effect_id: UUID | str, *, at_sequence: int) -> ForkedHistory:
        """Go on from a point with the recorded answers; sends and writes nothing."""
        return self._send(calls.fork(effect_id, at_sequence))

    def fork_live(self, effect_id: UUID | str, operation_key: str) -> Submission:
        """Reserve the payload anew under another key: it may act at the target again."""
        return self._send(calls.fork_live(effect_id, operation_key))

    def tool(
        self, name: str, *, key: Key | None = None, wait_seconds: int = WAIT_SECONDS_MAX
    ) -> Callable[[Callable[P, object]], Callable[P, Submission]]:
        """Make a function's signature a tool of the broker; its body never runs.

        See `ToolCalls` for what `key` may be.
        """
        built = ToolCalls(name, key)

        def decorated(function: Callable[P, object]) -> Callable[P, Submission]:
            request = built.requests_of(function)

            @functools.wraps(function)
            def submitting(*positional: P.args, **named: P.kwargs) -> Submission:
                wanted = request(*positional, **named)
                return self.submit(wanted, wait_seconds=wait_seconds)

            return built.dress(submitting, function)

        return decorated

    def _send(self, call: Call[T]) -> T:
        repeats = sending.Repeats(call, self._patience_seconds, monotonic())
        while True:
            answer = None
            try:
                answer = self._exchange(call)
                return sending.read(call, answer)
            except EffectBrokerError as error:
                pause = repeats.pause_after(error, answer, monotonic())
                if pause is None:
                    raise
            sleep(pause)

    def _exchange(self, call: Call[Any]) -> httpx2.Response:
        try:
            return self._http.request(
                call.method,
                call.path,
                content=call.body,
                headers=dict(call.headers),
                timeout=sending.timeout_of(call, self._timeout_seconds),
            )
        except httpx2.HTTPError as error:
            raise sending.unreachable(error) from error
