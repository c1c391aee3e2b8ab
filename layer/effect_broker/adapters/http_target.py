"""The target that a contract's credentials resolve to, and the digest that pins it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from effect_broker.domain.contract import EffectContract, HttpTerms, SecretRef
from effect_broker.domain.errors import ContractInvalid
from effect_broker.domain.url_template import check_base_url
from effect_broker.ports import SecretSource

HeaderFields = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class HttpTarget:
    """URLs and headers with their secrets in place; in memory only.

    `scope` covers base URL, account and mode, and the credential unless the contract says
    that it rotates within the account. `credential` covers every secret and keeps
    connections apart.
    """

    url: str
    probe_url: str | None
    headers: HeaderFields = field(repr=False)
    probe_headers: HeaderFields = field(repr=False)
    scope: bytes
    credential: bytes


async def resolve_target(contract: EffectContract, secrets: SecretSource) -> HttpTarget:
    """Resolve what the contract refers to.

    Raises:
        ContractInvalid: there are no `http` terms, or the base URL resolves to none.
        SecretNotFound: a reference resolves to nothing.
    """
    http = contract.http
    if http is None:
        raise ContractInvalid(f"{contract.name} {contract.version}: http is missing.")
    base = await _base(contract, http, secrets)
    headers = await header_fields(http.headers, secrets)
    probe = contract.probe
    own = probe.headers if probe is not None else None
    probe_headers = headers if own is None else await header_fields(own, secrets)
    credential = _credential(contract, dict(headers), dict(probe_headers))
    return HttpTarget(
        url=_below(base, http.url),
        probe_url=_below(base, probe.url) if probe and probe.url else None,
        headers=headers,
        probe_headers=probe_headers,
        scope=_scope(http, base, credential),
        credential=credential,
    )


@dataclass(frozen=True, slots=True)
class ListingTarget:
    """Where a target lists its own objects, with its secrets in place; in memory only."""

    url: str
    headers: HeaderFields = field(repr=False)
    credential: bytes


async def resolve_listing(
    contract: EffectContract, secrets: SecretSource
) -> ListingTarget:
    """Resolve what the contract's listing refers to; without headers it has the target's.

    Raises:
        ContractInvalid: no listing is declared, or its base URL resolves to none.
        SecretNotFound: a reference resolves to nothing.
    """
    listing, http = contract.listing, contract.http
    if listing is None or http is None:
        raise ContractInvalid(
            f"{contract.name} {contract.version}: there is no [contracts.listing]."
        )
    given = http.headers if listing.headers is None else listing.headers
    headers = await header_fields(given, secrets)
    return ListingTarget(
        url=_below(await _base(contract, http, secrets), listing.url),
        headers=headers,
        credential=digest_of("listing", *(text for pair in headers for text in pair)),
    )


def digest_of(*parts: str) -> bytes:
    """Hash texts so that no two lists of texts share a digest."""
    whole = hashlib.sha256()
    for part in parts:
        data = part.encode()
        whole.update(len(data).to_bytes(8, "big") + data)
    return whole.digest()


async def _base(
    contract: EffectContract, http: HttpTerms, secrets: SecretSource
) -> str | None:
    if not isinstance(http.base_url, SecretRef):
        return http.base_url
    base = http.base_url.render(await secrets.secret(http.base_url.secret))
    try:
        check_base_url(base)
    except ValueError as error:
        raise ContractInvalid(
            f"{contract.name} {contract.version}: http.base_url {error}."
        ) from None
    return base


async def header_fields(
    headers: Mapping[str, str | SecretRef], secrets: SecretSource
) -> HeaderFields:
    """Return headers with their secrets in place.

    Raises:
        SecretNotFound: a reference resolves to nothing.
    """
    return tuple(
        [
            (
                name,
                value
                if isinstance(value, str)
                else value.render(await secrets.secret(value.secret)),
            )
            for name, value in headers.items()
        ]
    )


def _below(base: str | None, url: str) -> str:
    return url if base is None else base.rstrip("/") + url


def _credential(
    contract: EffectContract, headers: Mapping[str, str], probe_headers: Mapping[str, str]
) -> bytes:
    """Digest the values that came from secrets; the rest is pinned with the contract."""
    assert contract.http is not None
    declared = contract.http.headers
    lookup = contract.probe.headers if contract.probe is not None else None
    parts = ["credential"]
    for terms, values in ((declared, headers), (lookup or {}, probe_headers)):
        for name in sorted(terms):
            if isinstance(terms[name], SecretRef):
                parts += [name.lower(), values[name]]
    return digest_of(*parts)


def _scope(http: HttpTerms, base: str | None, credential: bytes) -> bytes:
    same_account = http.account is not None and http.rotates
    return digest_of(
        "http",
        base.rstrip("/") if base is not None else http.url.split("{", 1)[0],
        http.account or "",
        http.mode or "",
        "" if same_account else credential.hex(),
    )
