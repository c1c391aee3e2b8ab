"""Rules between fields: each refuses a promise that the other fields cannot carry."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from effect_broker.domain.contract_http import KEY_HEADERS, ProbeTerms
from effect_broker.domain.contract_mcp import McpTerms
from effect_broker.domain.contract_schema import property_at
from effect_broker.domain.durations import format_duration
from effect_broker.domain.pointer import pointer_tokens
from effect_broker.domain.url_template import check_base_url, check_url, placeholders

if TYPE_CHECKING:
    from effect_broker.domain.contract import EffectContract

_NOTHING: Final = timedelta(0)
_BUILT_IN: Final = ("http", "sql", "stripe", "mcp", "simulated")
_TERMS_NEEDED: Final = ("http", "sql", "stripe", "mcp")


def broken_rules(contract: EffectContract, clock_margin: timedelta) -> tuple[str, ...]:
    """Return a reason for every rule that the contract breaks, each naming its fields."""
    reasons = list(_times(contract, clock_margin))
    for rule in _RULES:
        reasons.extend(rule(contract))
    return tuple(reasons)


def recovery_horizon(contract: EffectContract) -> timedelta:
    """Add up the longest regular recovery that the key must outlive.

    That is every attempt with the longest backoff between them, settlement, and one
    reconciliation (a lookup, its second look, and the attempt that it may permit).
    """
    terms = contract.backoff
    seconds, wait = 0.0, terms.initial.total_seconds()
    for _ in range(contract.retry_limit):
        seconds += min(wait, terms.max.total_seconds()) * (1 + terms.jitter)
        wait = min(wait * terms.factor, terms.max.total_seconds())
    attempts = contract.attempt_timeout * (contract.retry_limit + 1)
    lookup = contract.probe_timeout + contract.probe_gap
    settlement = contract.settlement_bound or _NOTHING
    waits = timedelta(seconds=seconds)
    return attempts + waits + settlement + lookup + contract.attempt_timeout


def _times(contract: EffectContract, margin: timedelta) -> Iterator[str]:
    shown = format_duration
    for field, span in (
        ("attempt_timeout", contract.attempt_timeout),
        ("probe.timeout", (contract.probe and contract.probe.timeout) or _NOTHING),
    ):
        if span + margin > contract.lease:
            yield (
                f"lease ({shown(contract.lease)}) must be at least {field}"
                f" ({shown(span)}) plus the clock margin ({shown(margin)})"
            )
    if contract.unknown_alert_after > contract.unknown_review_after:
        yield "unknown_alert_after must not be longer than unknown_review_after"
    if contract.backoff.initial > contract.backoff.max:
        yield "backoff.initial must not be longer than backoff.max"
    if contract.key_retention is None:
        return
    settlement = contract.settlement_bound or _NOTHING
    one_attempt = contract.attempt_timeout + settlement + margin
    if contract.key_retention <= one_attempt:
        yield (
            f"key_retention ({shown(contract.key_retention)}) must be longer than"
            " attempt_timeout, settlement_bound and the clock margin together"
            f" ({shown(one_attempt)}): else even the first attempt outlives its key"
        )
        return
    recovery = recovery_horizon(contract)
    if not contract.short_horizon and contract.key_retention <= recovery:
        yield (
            f"key_retention ({shown(contract.key_retention)}) must be longer than the"
            " recovery that retry_limit, backoff and settlement_bound allow"
            f" ({shown(recovery)}), or say short_horizon = true"
        )


def _class(contract: EffectContract) -> Iterator[str]:
    safety = contract.safety
    if safety != "transactional" and contract.settlement_bound is None:
        yield (
            f'settlement_bound is required for safety = "{safety}": how long may a'
            " request still be on its way or in the target's queue?"
        )
    if safety == "idempotent" and contract.key_retention is None:
        yield 'key_retention is required for safety = "idempotent"'
    if safety == "reconcilable" and contract.probe is None:
        yield 'probe is required for safety = "reconcilable"'
    if safety == "transactional" and contract.adapter in {"http", "stripe", "mcp"}:
        yield (
            'safety = "transactional" does not go with'
            f' adapter = "{contract.adapter}": a remote target cannot share the'
            " ledger's transaction"
        )
    if safety != "transactional" and contract.adapter == "sql":
        yield 'adapter = "sql" needs safety = "transactional"'
    if safety in {"unsafe", "transactional"}:
        for field, claimed in (
            ("key_generations", contract.key_generations > 1),
            ("key_records", contract.key_records != "successes"),
        ):
            if claimed:
                yield f'{field} does not go with safety = "{safety}": there is no key'
    proves = contract.key_records == "all_answers" or (
        contract.probe is not None and contract.probe.strongly_consistent
    )
    if contract.key_generations > 1 and not proves:
        yield (
            'key_generations > 1 needs key_records = "all_answers" or a probe with'
            ' consistency = "strong": nothing else proves that the old key did not'
            " commit"
        )


def _keys(contract: EffectContract) -> Iterator[str]:
    if contract.key_format.length > contract.key_max_length:
        yield (
            f'key_format "{contract.key_format}" ({contract.key_format.length}'
            f" characters) does not fit key_max_length ({contract.key_max_length}); keys"
            " are never cut"
        )
    http = contract.http
    if http is None:
        return
    if http.key_header is not None and http.key_body is not None:
        yield "http.key_header and http.key_body exclude each other"
    if contract.key_quoted and http.key_header is None:
        yield "key_quoted speaks of http.key_header, which is missing"
    if contract.safety == "unsafe":
        yield from _no_key(contract)
    elif contract.safety in {"idempotent", "reconcilable"} and not http.carries_key:
        yield (
            f'safety = "{contract.safety}" needs http.key_header, http.key_body or'
            " {downstream_key} in http.url: the target must see the key"
        )
    if http.key_body == "":
        yield "http.key_body must name a place inside the body"
    elif http.key_body is not None:
        if http.body == "none":
            yield "http.key_body needs http.body"
        if http.body == "form" and len(pointer_tokens(http.key_body)) > 1:
            yield 'http.key_body must be a single field where http.body = "form"'
        if property_at(contract.arguments, pointer_tokens(http.key_body)) is not None:
            yield "http.key_body stands where arguments declares a property of the caller"


def _mcp(contract: EffectContract) -> Iterator[str]:
    mcp = contract.mcp
    if mcp is None:
        return
    place = mcp.key_argument
    if contract.safety == "unsafe":
        if place is not None:
            yield (
                'safety = "unsafe" excludes mcp.key_argument: a key that the tool does'
                " not honour invites repeats on the way"
            )
        yield from _no_key_header("mcp.headers", mcp.headers)
    elif contract.safety in {"idempotent", "reconcilable"} and place is None:
        yield (
            f'safety = "{contract.safety}" needs mcp.key_argument: the tool must see the'
            " key"
        )
    if place == "":
        yield "mcp.key_argument must name a place inside the arguments"
    elif place is not None:
        steps = pointer_tokens(place)
        if property_at(contract.arguments, steps) is not None:
            yield (
                "mcp.key_argument stands where arguments declares a property of the"
                " caller"
            )
    yield from _mcp_lookup(mcp, contract.probe)


def _mcp_lookup(mcp: McpTerms, probe: ProbeTerms | None) -> Iterator[str]:
    lookup = mcp.lookup
    if (lookup is None) != (probe is None):
        yield "mcp.lookup and probe need each other: the tool, and what its word is worth"
    if lookup is not None:
        if lookup.tool == mcp.tool:
            yield "mcp.lookup.tool must be another tool than mcp.tool: it changes nothing"
        if not has_room(lookup.arguments, pointer_tokens(lookup.key_argument)):
            yield (
                "mcp.lookup.key_argument must name a free place inside"
                " mcp.lookup.arguments"
            )
    if probe is not None:
        if probe.found is None:
            yield 'adapter = "mcp" needs probe.found in [probe]'
        if probe.url or probe.headers or probe.absent:
            yield (
                'probe.url, probe.headers and probe.absent do not go with adapter = "mcp"'
            )


def has_room(document: Any, steps: tuple[str, ...]) -> bool:
    """Say whether something can be put there without taking or bending what is there."""
    for step in steps:
        if not isinstance(document, Mapping):
            return False
        if step not in document:
            return True
        document = document[step]
    return False


def _no_key(contract: EffectContract) -> Iterator[str]:
    http = contract.http
    assert http is not None
    if http.carries_key:
        yield (
            'safety = "unsafe" excludes http.key_header, http.key_body and'
            " {downstream_key} in http.url: a key that the target does not honour invites"
            " repeats on the way"
        )
    yield from _no_key_header("http.headers", http.headers)


def _no_key_header(field: str, headers: Mapping[str, Any]) -> Iterator[str]:
    for name in headers:
        if name.lower() in KEY_HEADERS:
            yield f'safety = "unsafe" excludes the header {name} in {field}'


def _adapter(contract: EffectContract) -> Iterator[str]:
    for field in _BUILT_IN:
        given = getattr(contract, field) is not None
        if contract.adapter == field and not given and field in _TERMS_NEEDED:
            yield f'adapter = "{field}" needs the table [{field}]'
        if given and contract.adapter in _BUILT_IN and contract.adapter != field:
            yield f'[{field}] does not go with adapter = "{contract.adapter}"'
    if contract.options and contract.adapter in _BUILT_IN:
        yield f'options are for adapters of one\'s own, not for "{contract.adapter}"'
    if contract.http is not None and not contract.http.meaning.entries:
        yield "http.meaning must list what the target's answers mean, one as committed"


def _urls(contract: EffectContract) -> Iterator[str]:
    based = contract.http is not None and contract.http.base_url is not None
    own = frozenset({"arguments", "downstream_key"})
    window = frozenset({"created_after", "created_before", "cursor"})
    http, probe, listing = contract.http, contract.probe, contract.listing
    urls = [
        ("http.url", http and http.url, own),
        ("probe.url", probe and probe.url, own),
        ("listing.url", listing and listing.url, window),
    ]
    for field, url, allowed in urls:
        if url:
            yield from _complaint(field, check_url, url, allowed=allowed, based=based)
            yield from _fillable(contract, field, url)
    for field, base in (
        ("http.base_url", http and http.base_url),
        ("sandbox.base_url", contract.sandbox and contract.sandbox.base_url),
        ("stripe.api_base", contract.stripe and contract.stripe.api_base),
        ("mcp.url", contract.mcp and contract.mcp.url),
    ):
        if isinstance(base, str):
            yield from _complaint(field, check_base_url, base)
    if probe is None or contract.adapter != "http":
        return
    if probe.url is None or probe.found is None:
        yield 'adapter = "http" needs probe.url and probe.found in [probe]'
    elif "downstream_key" not in placeholders(probe.url):
        yield (
            "probe.url must hold {downstream_key}: a lookup by anything else may find"
            " another effect"
        )


def _fillable(contract: EffectContract, field: str, url: str) -> Iterator[str]:
    for name in placeholders(url):
        steps = tuple(name.split(".")[1:])
        for depth in range(len(steps)):
            parent = property_at(contract.arguments, steps[:depth])
            required = parent.get("required", []) if parent is not None else []
            if steps[depth] not in required or (
                property_at(contract.arguments, steps[: depth + 1]) is None
            ):
                yield (
                    f"{field} is filled by {{{name}}}, which arguments must declare as a"
                    " required property"
                )
                break


def _arguments(contract: EffectContract) -> Iterator[str]:
    schema = contract.arguments
    if schema.get("type") != "object":
        yield 'arguments.type must be "object"'
    if property_at(schema, ("operation_key",)) is not None:
        yield "arguments must not declare operation_key: the name is the broker's own"
    for name in contract.non_intent_fields:
        if property_at(schema, (name,)) is None:
            yield f"non_intent_fields names {name!r}, which arguments does not declare"
    if len(set(contract.non_intent_fields)) < len(contract.non_intent_fields):
        yield "non_intent_fields names a field twice"
    for pointer in contract.redact.show:
        steps = pointer_tokens(pointer)
        if not steps:
            yield "redact.show must name single places in arguments, not the whole"
        elif "properties" in schema and property_at(schema, steps[:1]) is None:
            yield f"redact.show names {pointer!r}, which arguments does not declare"


def _headers(contract: EffectContract) -> Iterator[str]:
    http = contract.http
    if http is None:
        return
    special = {
        "http.key_header": http.key_header,
        "http.target_enforces_deadline": http.target_enforces_deadline,
    }
    named = {name.lower() for name in http.headers}
    for field, header in special.items():
        if header is not None and header.lower() in named:
            yield f"{field} ({header}) stands in http.headers as well"


def _complaint(
    field: str, check: Callable[..., None], *args: Any, **kwargs: Any
) -> Iterator[str]:
    try:
        check(*args, **kwargs)
    except ValueError as error:
        yield f"{field} {error}"


_RULES: Final[tuple[Callable[[EffectContract], Iterator[str]], ...]] = (
    _class,
    _keys,
    _mcp,
    _adapter,
    _urls,
    _arguments,
    _headers,
)
