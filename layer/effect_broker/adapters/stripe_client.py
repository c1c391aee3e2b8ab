"""The official SDK with our wire beneath it: it shapes the request and reads the answer,
and never touches a socket.

Imported on first use, behind the extra `stripe`: the SDK costs a cold start 80 ms.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, ClassVar, Final
from urllib.parse import urlsplit

import httpx2
import stripe
from stripe import _util

from effect_broker.adapters.wire.connecting import origin_of
from effect_broker.adapters.wire.exchange import Exchange, WireRequest
from effect_broker.domain.contract import StripeTerms

Send = Callable[[WireRequest], Awaitable[Exchange]]

_READING: Final = frozenset({"retrieve", "list", "search"})
_OWN: Final = frozenset({"params", "options"})

StripeError = stripe.StripeError


class NoSuchOperation(Exception):
    """The SDK has no such mutating call; the message says why."""


class GatedClient(stripe.HTTPClient):
    """Sends the one request of an attempt through `send`; a second one is refused."""

    name: ClassVar[str] = "effect-broker"

    def __init__(self, send: Send) -> None:
        super().__init__()
        self._send = send
        self.made: WireRequest | None = None

    async def request_async(
        self, method: str, url: str, headers: Mapping[str, str], post_data: Any = None
    ) -> tuple[bytes, int, Mapping[str, str]]:
        """Send once and return what was answered.

        Raises:
            stripe.APIConnectionError: there is no answer, or a request was made before.
        """
        if self.made is not None:
            raise _unanswered("an attempt is one request")
        self.made = _wire_request(method, url, headers, post_data)
        known = await self._send(self.made)
        if known.status is None:
            raise _unanswered(known.failure)
        fields = [
            (name.decode("latin-1"), text.decode("latin-1"))
            for name, text in known.headers
        ]
        return bytes(known.body), known.status, httpx2.Headers(fields)


def _unanswered(reason: str) -> stripe.APIConnectionError:
    return stripe.APIConnectionError(  # type: ignore[no-untyped-call]
        reason, should_retry=False
    )


def path_arguments(operation: str) -> tuple[str, ...]:
    """Return the names of the identifiers that an operation takes before its parameters.

    Raises:
        NoSuchOperation: there is none, it only reads, or it takes no idempotency key.
    """
    call = _call_of(_sdk("sk_test_unused", None, None, None), operation)
    return tuple(name for name in inspect.signature(call).parameters if name not in _OWN)


async def call(
    terms: StripeTerms,
    *,
    api_key: str,
    client: GatedClient,
    idempotency_key: str,
    arguments: Mapping[str, Any],
) -> None:
    """Make the operation's one request; what it answered stands with the sender.

    Raises:
        stripe.StripeError: any answer but success, and none.
    """
    sdk = _sdk(api_key, terms.api_base, terms.account, client)
    given = dict(arguments)
    identifiers = [given.pop(name) for name in path_arguments(terms.operation)]
    await _call_of(sdk, terms.operation)(
        *identifiers,
        params=_ordered(given),
        options={"idempotency_key": idempotency_key, "max_network_retries": 0},
    )


def _sdk(
    api_key: str, api_base: str | None, account: str | None, client: GatedClient | None
) -> stripe.StripeClient:
    _quieten()
    bases: Any = {} if api_base is None else {"api": api_base.rstrip("/")}
    return stripe.StripeClient(
        api_key,
        stripe_account=account,
        base_addresses=bases,
        max_network_retries=0,
        http_client=client,
    )


def _quieten() -> None:
    """Keep the SDK from logging arguments, and from telling its maker about this host."""
    stripe.enable_telemetry = False
    stripe.log = None
    _util.STRIPE_LOG = None
    logging.getLogger("stripe").setLevel(logging.WARNING)


def _call_of(sdk: stripe.StripeClient, operation: str) -> Any:
    *services, name = operation.split(".")
    if name in _READING:
        raise NoSuchOperation(f"{operation} only reads")
    if name == "delete":
        raise NoSuchOperation(f"{operation} takes no idempotency key")
    found: Any = sdk.v1
    for step in (*services, f"{name}_async"):
        found = getattr(found, step, None)
        if found is None:
            raise NoSuchOperation(f"the SDK has no {operation}")
    return found


def _ordered(value: Any) -> Any:
    """Return plain containers in one order, so that equal effects give equal bodies."""
    if isinstance(value, Mapping):
        return {key: _ordered(value[key]) for key in sorted(value)}
    if isinstance(value, list | tuple):
        return [_ordered(item) for item in value]
    return value


def _wire_request(
    method: str, url: str, headers: Mapping[str, str], post_data: Any
) -> WireRequest:
    parts = urlsplit(url)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    body = post_data if isinstance(post_data, bytes) else (post_data or "").encode()
    own = (
        ("Host", origin_of(url).authority),
        ("Accept-Encoding", "identity"),
        ("Content-Length", str(len(body))),
    )
    return WireRequest(
        method=method.upper(),
        target=target.encode("ascii"),
        headers=tuple(
            (name.encode("ascii"), text.encode("latin-1"))
            for name, text in (*own, *headers.items())
        ),
        body=body,
    )
