"""Answering who waits by a token: from the ledger, at least once, across crashes.

A settled effect is told with its receipt. One that only a person can move ends the wait
under a name of its own, which is no failure: the target may have acted.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from effect_broker.broker.inspecting import EffectView, Inspector
from effect_broker.domain.errors import EffectBrokerError, ReceiptNotFound
from effect_broker.domain.status import TERMINAL, EffectStatus
from effect_broker.ports import Callback, Callbacks, CallbackStore, Cipher, NewId

_log: Final = logging.getLogger(__name__)

TASK_TOKEN: Final = "task_token"  # noqa: S105 the name of a column
"""Column that a sealed token is bound to."""

LIMIT: Final = 10
"""Callbacks of one claim: all are told before their lease of half a minute ends."""

OUTPUT_BYTES_MAX: Final = 250_000
"""What a workflow's state may hold is a little more; a longer answer is named instead."""

CAUSE_CHARACTERS_MAX: Final = 30_000

EFFECT_FAILED: Final = "EffectFailed"
OUTCOME_UNKNOWN: Final = "OutcomeUnknown"
MANUAL_REVIEW: Final = "ManualReview"
"""Names that a wait ends by. No retrier may name them: a repeat finds the same effect."""

Tell = Callable[[EffectView, Mapping[str, Any] | None], Mapping[str, Any]]
"""Words an effect as every surface does, with its receipt if it has one."""


@dataclass(frozen=True, slots=True)
class AnswerReport:
    """What one pass did; `left` were not told, and are tried again later."""

    answered: int = 0
    left: int = 0
    more: bool = False


class Answering:
    """Keeps tokens, and answers those whose effects can be told."""

    def __init__(
        self,
        *,
        store: CallbackStore,
        callbacks: Callbacks,
        inspector: Inspector,
        cipher: Cipher,
        new_id: NewId,
        tell: Tell,
    ) -> None:
        self._store = store
        self._callbacks = callbacks
        self._inspector = inspector
        self._cipher = cipher
        self._new_id = new_id
        self._tell = tell

    async def run_once(self, *, effect_ids: Sequence[UUID] | None = None) -> AnswerReport:
        """Answer a few callbacks of these effects, or of all that are due.

        Raises:
            LedgerUnavailable: what was not told is told by a later pass.
        """
        token = self._new_id()
        claimed = await self._store.claim(token, LIMIT, effect_ids=effect_ids)
        answered = 0
        for callback in claimed:
            if await self._answer(callback):
                await self._store.end(callback, token)
                answered += 1
        return AnswerReport(
            answered, left=len(claimed) - answered, more=len(claimed) == LIMIT
        )

    async def _answer(self, callback: Callback) -> bool:
        try:
            view = await self._inspector.effect(callback.tenant_id, callback.effect_id)
            receipt = await self._receipt(callback)
            task_token = open_token(self._cipher, callback)
        except EffectBrokerError as error:
            _log.warning(
                "a task token cannot be answered yet",
                extra={"why": error.code, "deliveries": callback.deliveries},
            )
            return False
        told = self._tell(view, receipt)
        if view.snapshot.status in TERMINAL and _stands(view):
            return await self._callbacks.succeed(task_token, _output(told))
        return await self._callbacks.end(task_token, error_name(view), _cause(told))

    async def _receipt(self, callback: Callback) -> Mapping[str, Any] | None:
        try:
            return await self._inspector.receipt(callback.tenant_id, callback.effect_id)
        except ReceiptNotFound:
            return None


async def keep_token(
    store: CallbackStore,
    cipher: Cipher,
    *,
    tenant_id: UUID,
    effect_id: UUID,
    task_token: str,
) -> bool:
    """Keep a token sealed, once; say whether its effect can be told now."""
    sealed = cipher.seal(
        task_token.encode(), tenant_id=tenant_id, effect_id=effect_id, column=TASK_TOKEN
    )
    callback_id = UUID(bytes=hashlib.sha256(task_token.encode()).digest()[:16])
    return await store.keep(tenant_id, effect_id, callback_id, sealed)


def open_token(cipher: Cipher, callback: Callback) -> str:
    """Return the token of a callback."""
    return cipher.open(
        callback.sealed.ciphertext,
        key_id=callback.sealed.key_id,
        tenant_id=callback.tenant_id,
        effect_id=callback.effect_id,
        column=TASK_TOKEN,
    ).decode()


def error_name(view: EffectView) -> str:
    """Return the name by which a wait for this effect ends without a success."""
    if view.unknown:
        return OUTCOME_UNKNOWN
    if view.snapshot.status is EffectStatus.FAILED_FINAL:
        return EFFECT_FAILED
    return MANUAL_REVIEW


def _stands(view: EffectView) -> bool:
    return view.snapshot.status is not EffectStatus.FAILED_FINAL


def _output(told: Mapping[str, Any]) -> str:
    """Write an answer; a target's own answer that is too long for a state is left out."""
    text = json.dumps(told)
    receipt = told.get("receipt")
    if len(text) <= OUTPUT_BYTES_MAX or receipt is None:
        return text
    shorter = {**receipt, "output": None, "output_raw_base64": None}
    return json.dumps({**told, "receipt": {**shorter, "output_too_long": True}})


def _cause(told: Mapping[str, Any]) -> str:
    """Write what may be done, short enough for a cause; the effect can be asked about."""
    shown = ("effect_id", "operation_key", "status", "outcome", "reason", "next", "links")
    return json.dumps({name: told[name] for name in shown})[:CAUSE_CHARACTERS_MAX]
