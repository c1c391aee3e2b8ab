"""Which adapter speaks for a contract: a registry of kinds, each a source itself.

A new kind of target is one module with such a source, and one entry where the registry is
made.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from effect_broker.adapters.custom import CustomAdapters
from effect_broker.adapters.http import HttpAdapters
from effect_broker.adapters.mcp import McpAdapters
from effect_broker.adapters.simulated import SimulatedAdapters
from effect_broker.adapters.sql import SqlAdapters
from effect_broker.adapters.stripe import StripeAdapters
from effect_broker.adapters.wire.exchange import AbortingWatchdog
from effect_broker.domain.contract import EffectContract
from effect_broker.domain.errors import ContractInvalid
from effect_broker.ports import (
    AdapterSource,
    Clock,
    Deadline,
    SecretSource,
    TargetAdapter,
)


@runtime_checkable
class _Closing(Protocol):
    async def aclose(self) -> None: ...


class Adapters:
    """Passes a contract to its kind's source; `custom` takes `package.module:Name`."""

    def __init__(
        self, kinds: Mapping[str, AdapterSource], *, custom: AdapterSource | None = None
    ) -> None:
        self._kinds = dict(kinds)
        self._custom = custom

    async def scope_digest(self, contract: EffectContract) -> bytes:
        """Digest the target that the contract's credentials resolve to now.

        Raises:
            ContractInvalid: no such kind here, or terms that it lacks.
            SecretNotFound: a reference resolves to nothing here.
        """
        return await self._source(contract).scope_digest(contract)

    async def adapter(
        self,
        contract: EffectContract,
        *,
        scope_digest: bytes,
        deadline: Deadline | None,
    ) -> TargetAdapter:
        """Build the contract's adapter, bound to a scope and a deadline.

        Raises:
            ContractInvalid: no such kind here, or terms that it lacks.
            SecretNotFound: a reference resolves to nothing here.
        """
        return await self._source(contract).adapter(
            contract, scope_digest=scope_digest, deadline=deadline
        )

    async def aclose(self) -> None:
        """Close what the kinds keep open between requests."""
        for source in self._kinds.values():
            if isinstance(source, _Closing):
                await source.aclose()

    def _source(self, contract: EffectContract) -> AdapterSource:
        kind = contract.adapter
        source = self._custom if ":" in kind else self._kinds.get(kind)
        if source is None:
            raise ContractInvalid(
                f"{contract.name} {contract.version}: adapter {kind} is not served here."
            )
        return source


def adapters(
    secrets: SecretSource,
    clock: Clock,
    *,
    watchdog: AbortingWatchdog | None = None,
    more: Mapping[str, AdapterSource] | None = None,
) -> Adapters:
    """Make the usual registry; `more` adds kinds, or replaces one."""
    kinds: dict[str, AdapterSource] = {
        "http": HttpAdapters(secrets, clock, watchdog=watchdog),
        "simulated": SimulatedAdapters(clock),
        "sql": SqlAdapters(clock),
        "mcp": McpAdapters(secrets, clock, watchdog=watchdog),
        "stripe": StripeAdapters(secrets, clock, watchdog=watchdog),
    }
    return Adapters(
        kinds | dict(more or {}),
        custom=CustomAdapters(secrets, clock, watchdog=watchdog),
    )
