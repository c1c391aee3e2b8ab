"""From an effect to the bytes of its one request; equal effects give equal bodies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import urlencode, urlsplit
from uuid import UUID

from effect_broker.adapters.http_target import HeaderFields, HttpTarget
from effect_broker.adapters.wire.connecting import origin_of
from effect_broker.adapters.wire.exchange import WireRequest
from effect_broker.adapters.wire.gate import NothingSent
from effect_broker.domain.canonical import canonical
from effect_broker.domain.contract import EffectContract, HttpTerms, SafetyClass
from effect_broker.domain.errors import InvalidRequest
from effect_broker.domain.intent import EffectRecord
from effect_broker.domain.pointer import pointer_tokens
from effect_broker.domain.url_template import fill_url
from effect_broker.ports import Deadline

ATTEMPT_HEADER: Final = "X-Effect-Attempt"
"""Names the attempt in the target's logs. It is no key: it differs on every attempt."""

_CONTENT_TYPES: Final = {
    "json": "application/json",
    "form": "application/x-www-form-urlencoded",
}


class NotEncodable(NothingSent):
    """The effect cannot be written as the request that its contract describes."""


def carries_key(contract: EffectContract) -> bool:
    """Say whether requests carry the downstream key; to an unsafe target none does."""
    http = contract.http
    return (
        http is not None
        and http.carries_key
        and contract.safety is not SafetyClass.UNSAFE
    )


def dispatch_request(
    target: HttpTarget, effect: EffectRecord, attempt_id: UUID, deadline: Deadline | None
) -> WireRequest:
    """Write the mutating request.

    Raises:
        NotEncodable: an argument cannot stand where the contract puts it.
    """
    contract = effect.contract
    http = contract.http
    assert http is not None
    body = _body(contract, http, effect)
    url = _filled(target.url, effect)
    own = []
    if ATTEMPT_HEADER.lower() not in {name.lower() for name in http.headers}:
        own.append((ATTEMPT_HEADER, str(attempt_id)))
    if http.key_header is not None and carries_key(contract):
        key = effect.downstream_key
        own.append((http.key_header, f'"{key}"' if contract.key_quoted else key))
    if http.target_enforces_deadline is not None and deadline is not None:
        own.append((http.target_enforces_deadline, _instant(deadline.wall)))
    if http.body != "none":
        own.append(("Content-Type", _CONTENT_TYPES[http.body]))
    if body or http.method != "DELETE":
        own.append(("Content-Length", str(len(body))))
    return wire_request(http.method, url, (*own, *target.headers), body)


def probe_request(target: HttpTarget, effect: EffectRecord) -> WireRequest:
    """Write the lookup.

    Raises:
        NotEncodable: an argument cannot stand where the contract puts it.
    """
    if target.probe_url is None:
        raise NotEncodable("no_lookup")
    url = _filled(target.probe_url, effect)
    return wire_request("GET", url, target.probe_headers, b"")


def wire_request(method: str, url: str, fields: HeaderFields, body: bytes) -> WireRequest:
    """Write a request with its usual headers, where the contract gives no others.

    Raises:
        NotEncodable: a header holds what no header can.
    """
    parts = urlsplit(url)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    given = {name.lower() for name, _ in fields}
    usual = (
        ("Host", origin_of(url).authority),
        ("User-Agent", "effect-broker"),
        ("Accept", "application/json"),
        ("Accept-Encoding", "identity"),
    )
    headers = [(name, value) for name, value in usual if name.lower() not in given]
    try:
        return WireRequest(
            method=method,
            target=target.encode("ascii"),
            headers=tuple(
                (name.encode("ascii"), value.encode("latin-1"))
                for name, value in (*headers, *fields)
            ),
            body=body,
        )
    except UnicodeEncodeError:
        raise NotEncodable("header_not_encodable") from None


def _filled(template: str, effect: EffectRecord) -> str:
    values = {
        "downstream_key": effect.downstream_key,
        "arguments": effect.request.arguments,
    }
    try:
        return fill_url(template, values)
    except InvalidRequest as error:
        raise NotEncodable(error.code) from None


def _body(contract: EffectContract, http: HttpTerms, effect: EffectRecord) -> bytes:
    if http.body == "none":
        return b""
    document: Any = dict(effect.request.arguments)
    if http.key_body is not None and carries_key(contract):
        document = with_value(
            document, pointer_tokens(http.key_body), effect.downstream_key
        )
    try:
        if http.body == "json":
            return canonical(document)
        return urlencode(list(_pairs(document, ""))).encode("ascii")
    except InvalidRequest as error:
        raise NotEncodable(error.code) from None


def with_value(document: Any, steps: tuple[str, ...], value: str) -> Any:
    """Return the document with `value` at the place; the original stays as it was."""
    if not steps:
        return value
    if not isinstance(document, Mapping):
        raise NotEncodable("key_has_no_place")
    inner = document.get(steps[0], {})
    return {**document, steps[0]: with_value(inner, steps[1:], value)}


def _pairs(value: Any, name: str) -> Iterator[tuple[str, str]]:
    """Flatten a document as `a[b][0]=c`, the form that PHP, Rails and Stripe read."""
    if isinstance(value, Mapping):
        for key in sorted(value):
            yield from _pairs(value[key], f"{name}[{key}]" if name else key)
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _pairs(item, f"{name}[{index}]")
    elif isinstance(value, str):
        yield name, value
    elif value is None:
        yield name, ""
    else:
        yield name, canonical(value).decode("ascii")


def _instant(seconds: float) -> str:
    moment = datetime.fromtimestamp(seconds, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
