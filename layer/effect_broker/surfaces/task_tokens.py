"""Callers that wait by a task token: kept at submit, answered by whoever settles."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from effect_broker.broker.answering import Answering, keep_token
from effect_broker.broker.inspecting import EffectView
from effect_broker.ids import uuid7
from effect_broker.ports import CallbackStore, Cipher, Nudger
from effect_broker.wiring.core import Core


@dataclass(frozen=True, slots=True)
class TaskTokens:
    """Keeps tokens sealed, beside the effects that they wait for."""

    store: CallbackStore
    cipher: Cipher
    nudger: Nudger

    async def keep(self, tenant_id: UUID, effect_id: UUID, task_token: str) -> None:
        """Keep a token; where its effect is settled already, have it answered soon.

        Raises:
            LedgerUnavailable: it is not kept; submit again with the same key.
        """
        answerable = await keep_token(
            self.store,
            self.cipher,
            tenant_id=tenant_id,
            effect_id=effect_id,
            task_token=task_token,
        )
        if answerable:
            await self.nudger.reconcile([effect_id])


def task_tokens(core: Core) -> TaskTokens:
    """Return where this process keeps tokens."""
    return TaskTokens(core.callback_store, core.cipher, core.nudger)


def answering(core: Core) -> Answering:
    """Return what answers tokens in this process, in the words of every surface."""
    return Answering(
        store=core.callback_store,
        callbacks=core.callbacks,
        inspector=core.broker.inspector,
        cipher=core.cipher,
        new_id=uuid7,
        tell=told,
    )


def told(view: EffectView, receipt: Mapping[str, Any] | None) -> dict[str, Any]:
    """Word an effect with its receipt, as a submission's answer does."""
    from effect_broker.surfaces.answers import render
    from effect_broker.surfaces.telling import effect_answer

    answer: dict[str, Any] = json.loads(render(effect_answer(view)))
    return {**answer, "receipt": None if receipt is None else dict(receipt)}
