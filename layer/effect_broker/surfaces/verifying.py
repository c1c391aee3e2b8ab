"""Verification of contracts against their sandboxes, as the command line runs it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from effect_broker.adapters.source import adapters
from effect_broker.clock import SystemClock
from effect_broker.domain.contract import EffectContract
from effect_broker.settings import Settings
from effect_broker.verification.judging import judge, proposed_class
from effect_broker.verification.report import Report
from effect_broker.verification.trying import Memory, Trying, sandboxed
from effect_broker.wiring.sources import secret_source


async def verify(
    contract: EffectContract,
    settings: Settings,
    *,
    tell: Callable[[str], None],
    earlier: Mapping[tuple[str, str], tuple[Memory, ...]],
) -> Report:
    """Try a contract out against its sandbox, and judge what it claims.

    Makes objects there, some of them twice where the target deduplicates nothing.

    Raises:
        ContractInvalid: there is no sandbox, or it did not carry out its arguments.
        SecretNotFound: a credential is missing.
    """
    clock = SystemClock()
    source = adapters(secret_source(settings), clock)
    trying = Trying(sandboxed(contract), source, clock, tell)
    before = earlier.get((contract.name, contract.version), ())
    try:
        seen = await trying.run(before)
    finally:
        await source.aclose()
    return Report(
        contract=contract,
        rows=judge(contract, seen),
        proposed=proposed_class(seen),
        keys=(*before, *trying.made),
    )
