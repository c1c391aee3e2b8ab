"""Which contracts this process can serve, and what target each one's credentials resolve
to now.
"""

from __future__ import annotations

from collections.abc import Sequence

from effect_broker.broker.catalog import Catalog
from effect_broker.domain.errors import EffectBrokerError
from effect_broker.ports import AdapterSource, ContractTerms, Meter


class Scopes:
    """Answers with the terms of every published contract whose target can be resolved
    here.
    """

    def __init__(self, catalog: Catalog, adapters: AdapterSource, meter: Meter) -> None:
        self._catalog = catalog
        self._adapters = adapters
        self._meter = meter

    async def terms(self) -> Sequence[ContractTerms]:
        """Return the terms; a contract whose adapter or secret is missing here is left to
        others.

        What nobody can serve is found by the sweep once its submit deadline has passed.
        """
        found: list[ContractTerms] = []
        for published in await self._catalog.all():
            try:
                digest = await self._adapters.scope_digest(published.contract)
            except EffectBrokerError:
                self._meter.count("sends_prevented_total", reason="adapter_gone")
                continue
            found.append(ContractTerms(published.contract_id, digest))
        return found
