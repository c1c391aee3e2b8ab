"""Which contracts this process can serve, and what target each one's credentials resolve
to now.
"""

from __future__ import annotations

from collections.abc import Sequence

from effect_broker.broker.catalog import Catalog
from effect_broker.domain.errors import ContractInvalid, SecretNotFound
from effect_broker.ports import AdapterSource, ContractTerms


class Scopes:
    """Answers with the terms of every published contract whose target can be resolved
    here.
    """

    def __init__(self, catalog: Catalog, adapters: AdapterSource) -> None:
        self._catalog = catalog
        self._adapters = adapters

    async def terms(self) -> Sequence[ContractTerms]:
        """Return the terms; a contract whose adapter or secret is missing here is left to
        others.

        What nobody can serve is found by the sweep once its submit deadline has passed.
        """
        found: list[ContractTerms] = []
        for published in await self._catalog.all():
            try:
                digest = await self._adapters.scope_digest(published.contract)
            except (ContractInvalid, SecretNotFound):
                continue
            found.append(ContractTerms(published.contract_id, digest))
        return found
