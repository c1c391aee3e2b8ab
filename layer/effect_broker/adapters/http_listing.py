"""The target's own list over HTTP, page by page; it only reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

from effect_broker.adapters.http_request import wire_request
from effect_broker.adapters.http_target import ListingTarget, resolve_listing
from effect_broker.adapters.wire.body import read_body
from effect_broker.adapters.wire.connecting import origin_of
from effect_broker.adapters.wire.connections import ConnectionKey, Connections
from effect_broker.adapters.wire.exchange import exchange
from effect_broker.adapters.wire.gate import NothingSent, SendGate
from effect_broker.domain.contract import EffectContract, ListingTerms
from effect_broker.domain.errors import TargetUnreadable
from effect_broker.domain.pointer import at_pointer
from effect_broker.domain.url_template import fill_url
from effect_broker.ports import Clock, SecretSource, TargetObject

PAGES_MAX: Final = 1000
"""A listing that has more is asked for a shorter window."""

_CURSOR: Final = "{cursor}"
_NOBODY: Final = UUID(int=0)
"""An audit belongs to no tenant, and shares no connection with one."""


class HttpLister:
    """Implements `ports.Lister` by the contract's listing."""

    def __init__(self, secrets: SecretSource, clock: Clock) -> None:
        self._secrets = secrets
        self._clock = clock
        self._connections = Connections(clock)

    async def objects(
        self, contract: EffectContract, created_after: datetime, created_before: datetime
    ) -> Sequence[TargetObject]:
        """Read every page of a window.

        Raises:
            ContractInvalid, SecretNotFound: it cannot be asked as described.
            TargetUnreadable: a page was no whole answer, an item has no id, the cursor
                repeats, or there are too many pages. What was read is no basis then.
        """
        target = await resolve_listing(contract, self._secrets)
        listing = contract.listing
        assert listing is not None
        window = {
            "created_after": _instant(created_after, listing),
            "created_before": _instant(created_before, listing),
        }
        found: list[TargetObject] = []
        seen: set[str] = set()
        cursor = ""
        for _ in range(PAGES_MAX):
            page = await self._page(contract, target, window, cursor)
            found += _objects(listing, page)
            cursor = _next(listing, page)
            if not cursor:
                return found
            if cursor in seen:
                raise TargetUnreadable("The listing's cursor repeats: it has no end.")
            seen.add(cursor)
        raise TargetUnreadable(f"The listing has over {PAGES_MAX} pages: ask for less.")

    async def aclose(self) -> None:
        """Close idle connections."""
        await self._connections.aclose()

    async def _page(
        self,
        contract: EffectContract,
        target: ListingTarget,
        window: Mapping[str, str],
        cursor: str,
    ) -> Any:
        assert contract.listing is not None
        assert contract.http is not None
        template = target.url if cursor else _without_cursor(target.url)
        url = fill_url(template, {**window, "cursor": cursor})
        timeout = contract.listing.timeout or contract.attempt_timeout
        key = ConnectionKey(
            tenant_id=_NOBODY,
            contract=contract.digest(),
            credential=target.credential,
            origin=origin_of(url),
            allow_private=contract.http.allow_private,
        )
        try:
            request = wire_request("GET", url, target.headers, b"")
        except NothingSent as refused:
            raise TargetUnreadable(f"It cannot be asked: {refused.reason}.") from None
        gate = SendGate(self._clock, None, scope=b"", expected_scope=b"")
        seconds = timeout.total_seconds()
        known = await exchange(self._connections, key, request, gate, seconds=seconds)
        body = read_body(known)
        if known.status is None or not 200 <= known.status < 300 or not body.readable:
            said = known.failure or ", ".join(body.flags) or f"status {known.status}"
            raise TargetUnreadable(f"A page of the listing could not be read: {said}.")
        return body.value


def _objects(listing: ListingTerms, page: Any) -> Iterator[TargetObject]:
    items = at_pointer(page, listing.items)
    if not isinstance(items, list):
        raise TargetUnreadable(f"A page has no list at {listing.items!r}.")
    for item in items:
        external_id = _text(at_pointer(item, listing.external_id))
        if external_id is None:
            raise TargetUnreadable(f"An item has no id at {listing.external_id!r}.")
        key = None if listing.key is None else _text(at_pointer(item, listing.key))
        yield TargetObject(external_id, key)


def _next(listing: ListingTerms, page: Any) -> str:
    if listing.next_cursor is None:
        return ""
    return _text(at_pointer(page, listing.next_cursor)) or ""


def _text(value: Any) -> str | None:
    if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
        return None
    return str(value)


def _without_cursor(template: str) -> str:
    """Leave out the parameter that holds the cursor: the first page has none."""
    path, mark, query = template.partition("?")
    kept = [part for part in query.split("&") if _CURSOR not in part]
    return path + (mark + "&".join(kept) if kept and mark else "")


def _instant(moment: datetime, listing: ListingTerms) -> str:
    if listing.time == "unix":
        return str(int(moment.timestamp()))
    text = moment.astimezone(UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")
