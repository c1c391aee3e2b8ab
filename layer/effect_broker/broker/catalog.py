"""The contracts this process knows: read from the registry, kept briefly, never
changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from effect_broker.domain.contract import EffectContract
from effect_broker.domain.errors import UnknownTool
from effect_broker.ports import Clock, PublishedContract, Registry

REFRESH_SECONDS: Final = 5.0
"""How stale the view of what is published may be: a new contract is picked up within it.
"""


class Catalog:
    """Answers which contract a tool pins now, and which document an effect pinned
    then.
    """

    def __init__(
        self,
        registry: Registry,
        clock: Clock,
        *,
        refresh_seconds: float = REFRESH_SECONDS,
    ) -> None:
        self._registry = registry
        self._clock = clock
        self._refresh_seconds = refresh_seconds
        self._by_id: dict[int, PublishedContract] = {}
        self._by_tool: dict[str, PublishedContract] = {}
        self._read_at: float | None = None

    async def active(self, tool: str) -> PublishedContract | None:
        """Return the contract that a new effect of `tool` pins, or None."""
        await self._refresh()
        return self._by_tool.get(tool)

    async def pinned(self, contract_id: int) -> EffectContract:
        """Return the contract that an effect pinned at its reservation.

        Raises:
            UnknownTool: the registry has no such contract; a defect or a foreign ledger.
        """
        if contract_id not in self._by_id:
            await self._read()
        published = self._by_id.get(contract_id)
        if published is None:
            raise UnknownTool(f"Contract {contract_id} is not in the registry.")
        return published.contract

    async def all(self) -> Sequence[PublishedContract]:
        """Return every published contract."""
        await self._refresh()
        return tuple(self._by_id.values())

    async def tools(self) -> Sequence[PublishedContract]:
        """Return the active contract of every tool, by tool name."""
        await self._refresh()
        return tuple(self._by_tool[tool] for tool in sorted(self._by_tool))

    async def _refresh(self) -> None:
        now = self._clock.monotonic()
        if self._read_at is None or now - self._read_at >= self._refresh_seconds:
            await self._read()

    async def _read(self) -> None:
        published = await self._registry.contracts()
        self._by_id = {row.contract_id: row for row in published}
        self._by_tool = {row.contract.tool: row for row in published if row.active}
        self._read_at = self._clock.monotonic()
