"""Callers that wait by a token: where their tokens are kept, and how they are told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from effect_broker.ports.host import Sealed


@dataclass(frozen=True, slots=True)
class Callback:
    """A sealed token whose effect can be told; `deliveries` counts this one."""

    effect_id: UUID
    callback_id: UUID
    tenant_id: UUID
    sealed: Sealed
    deliveries: int


class CallbackStore(Protocol):
    """Keeps tokens until they were answered."""

    async def keep(
        self, tenant_id: UUID, effect_id: UUID, callback_id: UUID, sealed: Sealed
    ) -> bool:
        """Keep a token once; say whether it can be answered now."""

    async def claim(
        self, token: UUID, limit: int, *, effect_ids: Sequence[UUID] | None = None
    ) -> Sequence[Callback]:
        """Take what can be answered: of these effects, or all that is due.

        A lease holds each; what was not ended by then is taken again.
        """

    async def end(self, callback: Callback, token: UUID) -> bool:
        """Forget an answered one; False where the lease was lost meanwhile."""


class Callbacks(Protocol):
    """Tells who waits. Neither call raises.

    True: it was told, or nobody waits any more. False: try again later.
    """

    async def succeed(self, task_token: str, output: str) -> bool:
        """Say what became of it, as JSON."""

    async def end(self, task_token: str, error: str, cause: str) -> bool:
        """Say by which name it ended, and why."""
