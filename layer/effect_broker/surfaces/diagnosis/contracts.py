"""Contracts: what is published, against today's rules, secrets and files."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from effect_broker.contracts import load_contracts
from effect_broker.domain.contract import CLOCK_MARGIN, EffectContract, SafetyClass
from effect_broker.domain.contract_rules import broken_rules
from effect_broker.domain.errors import ContractInvalid, SecretNotFound
from effect_broker.ports import AdapterSource, PublishedContract
from effect_broker.settings import Settings
from effect_broker.surfaces.diagnosis.finding import Finding, broken, ok, warning


async def look_at_contracts(
    published: Sequence[PublishedContract], source: AdapterSource, settings: Settings
) -> list[Finding]:
    """Look at each contract that new effects pin, and at this process's files."""
    active = [item.contract for item in published if item.active]
    found: list[Finding] = []
    for contract in active:
        found.append(await _look_at(contract, source))
    found += _files(settings, {item.digest for item in published})
    if not active:
        found.append(
            warning(
                "contracts",
                "registry",
                "None is published: nothing can be submitted.",
                "`effect-broker contracts publish FOLDER`.",
            )
        )
    return found


def named(contract: EffectContract) -> str:
    """Return how findings name a contract."""
    return f"{contract.tool} ({contract.name} {contract.version})"


def repeatable(published: Sequence[PublishedContract]) -> Sequence[str]:
    """Name the contracts for which a POST that is repeated on its way acts twice."""
    return [
        named(item.contract)
        for item in published
        if item.active
        and item.contract.safety is SafetyClass.UNSAFE
        and item.contract.adapter not in ("sql", "simulated")
    ]


def unverified_paths(contracts: Sequence[str]) -> Iterator[Finding]:
    """Warn of contracts whose way to the target nobody has tried."""
    for where in contracts:
        yield warning(
            "post path",
            where,
            "Nobody has verified that nothing on the way repeats a POST; this target"
            " cannot tell a repeat from a second call.",
            "`effect-broker doctor --post-path URL --listen HOST:PORT`, with a URL that"
            " leads through the same proxies.",
        )


async def _look_at(contract: EffectContract, source: AdapterSource) -> Finding:
    where = named(contract)
    reasons = broken_rules(contract, CLOCK_MARGIN)
    if reasons:
        return broken(
            "contracts",
            where,
            f"Today's rules would refuse it: {'; '.join(reasons)}.",
            "Publish a version that can keep its promise.",
        )
    try:
        await source.scope_digest(contract)
    except (ContractInvalid, SecretNotFound) as error:
        return warning(
            "contracts",
            where,
            f"This host could not send for it: {error.message}",
            "If this host runs workers, give it the adapter or the secret.",
        )
    return ok("contracts", where, f"{contract.safety}; this host could send for it.")


def _files(settings: Settings, published: Collection[bytes]) -> Iterator[Finding]:
    if settings.contracts is None:
        return
    where = str(settings.contracts)
    try:
        loaded = load_contracts(settings.contracts)
    except ContractInvalid as error:
        yield broken("contract files", where, error.message, "Correct the file.")
        return
    missing = [it.name for it in loaded if it.digest() not in published]
    if missing:
        yield warning(
            "contract files",
            where,
            f"Not published as they stand there: {', '.join(missing)}.",
            "`effect-broker contracts publish`, under a new version where one changed.",
        )
    else:
        yield ok("contract files", where, "All are published as they stand there.")
