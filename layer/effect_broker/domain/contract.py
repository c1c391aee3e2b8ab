"""The target's versioned promise: what its answers, key and lookup are worth."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import timedelta
from enum import StrEnum
from functools import cached_property
from typing import Annotated, Any, Final, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    StrictBool,
    StrictInt,
    StrictStr,
    ValidationInfo,
    model_validator,
)

from effect_broker.domain.canonical import canonical, parse_canonical
from effect_broker.domain.contract_http import (
    Consistency,
    HttpTerms,
    ListingTerms,
    Meaning,
    MeaningTable,
    ProbeTerms,
    SandboxTerms,
    Scope,
    SecretRef,
    Terms,
    UrlText,
)
from effect_broker.domain.contract_mcp import McpTerms, McpUpstream
from effect_broker.domain.contract_rules import broken_rules, has_room, recovery_horizon
from effect_broker.domain.contract_schema import argument_errors, check_schema
from effect_broker.domain.durations import Duration, PositiveDuration
from effect_broker.domain.errors import InvalidArguments
from effect_broker.domain.pointer import JsonPointer, pointer_tokens
from effect_broker.domain.url_template import fill_url

__all__ = [
    "CLOCK_MARGIN",
    "Backoff",
    "Consistency",
    "ContractRulesBroken",
    "EffectContract",
    "HttpTerms",
    "KeyFormat",
    "KeyRecords",
    "ListingTerms",
    "McpTerms",
    "McpUpstream",
    "Meaning",
    "MeaningTable",
    "ProbeTerms",
    "Redaction",
    "SafetyClass",
    "SandboxTerms",
    "SecretRef",
    "SimulatedTerms",
    "SqlTerms",
    "StripeTerms",
]

CLOCK_MARGIN: Final = timedelta(seconds=1)
"""How far the clocks of one deployment may lie apart: a time service holds milliseconds,
and a host that is worse than this must not decide on deadlines."""


class SafetyClass(StrEnum):
    """What the target offers, and so what a lost answer permits."""

    TRANSACTIONAL = "transactional"
    IDEMPOTENT = "idempotent"
    RECONCILABLE = "reconcilable"
    UNSAFE = "unsafe"


class KeyRecords(StrEnum):
    """What the target keeps under a key; `successes` is the careful reading."""

    ALL_ANSWERS = "all_answers"
    COMMITS = "commits"
    SUCCESSES = "successes"


class KeyFormat(StrEnum):
    """How the downstream key is written."""

    BASE64URL = "base64url"
    HEX = "hex"
    UUID = "uuid"

    @property
    def length(self) -> int:
        """Characters of every key in this format."""
        return {"base64url": 43, "hex": 64, "uuid": 36}[self.value]


class Backoff(Terms):
    """Waits between repetitions: `initial`, times `factor` each, at most `max`."""

    initial: PositiveDuration = timedelta(seconds=1)
    factor: Annotated[float, Field(ge=1, le=10, strict=True, allow_inf_nan=False)] = 2.0
    max: PositiveDuration = timedelta(minutes=5)
    jitter: Annotated[float, Field(ge=0, le=1, strict=True, allow_inf_nan=False)] = 0.2


class Redaction(Terms):
    """What a preview may show; everything else is masked."""

    show: tuple[JsonPointer, ...] = ()


ImportPath = Annotated[StrictStr, Field(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$")]


class SqlTerms(Terms):
    """A mutation in the ledger's own transaction: a statement, or a registered function.

    The statement takes `%(name)s` parameters: the top-level arguments, and `effect_id`,
    `tenant_id`, `operation_key` and `downstream_key`. `external_id` names a column that
    it returns.
    """

    statement: StrictStr | None = None
    function: ImportPath | None = None
    external_id: StrictStr | None = None

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.statement is None) == (self.function is None):
            raise ValueError("give either 'statement' or 'function'")
        return self


class SimulatedTerms(Terms):
    """A target that does as it is told: `script` names what each request does in turn."""

    script: tuple[StrictStr, ...] = ()
    latency: Duration = timedelta(0)


class StripeTerms(Terms):
    """A call of the official SDK, for example `payment_intents.create`."""

    api_key: SecretRef
    operation: Annotated[StrictStr, Field(pattern=r"^[a-z_]+(?:\.[a-z_]+)+$")]
    api_base: UrlText | None = None
    account: Scope | None = None
    mode: Literal["test", "live"] = "test"


class ContractRulesBroken(ValueError):
    """Rules between fields that the contract breaks; each reason names its fields."""

    def __init__(self, reasons: tuple[str, ...]) -> None:
        super().__init__("; ".join(reasons))
        self.reasons = reasons


Name = Annotated[StrictStr, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$")]
Version = Annotated[StrictStr, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._+-]{0,63}$")]
AdapterName = Annotated[
    StrictStr,
    Field(
        pattern=r"^(?:http|sql|stripe|mcp|simulated|[A-Za-z_][\w.]*:[A-Za-z_]\w*)$",
        examples=["http", "sql", "package.module:Adapter"],
    ),
]
Count = Annotated[StrictInt, Field(ge=0, le=1_000)]
Schema = Annotated[dict[str, Any], AfterValidator(check_schema)]
EMPTY_IS_ABSENT: Final = BeforeValidator(lambda value: None if value == {} else value)
"""A table that is opened in a file but says nothing."""


class EffectContract(Terms):
    """What the broker may rely on for one tool; a wrong claim here is a wrong guarantee.

    Refuses unknown fields, units left out, and every combination that would promise more
    than the target can prove. A default is never changed, since pinned documents leave
    defaults out.
    """

    tool: Name
    name: Name
    version: Version
    safety: SafetyClass
    adapter: AdapterName
    description: Annotated[StrictStr, Field(max_length=2_000)] = ""
    attempt_timeout: PositiveDuration
    lease: PositiveDuration = timedelta(seconds=30)
    retry_limit: Count = 5
    backoff: Backoff = Field(default_factory=Backoff)
    submit_deadline: PositiveDuration = timedelta(hours=1)
    key_retention: PositiveDuration | None = None
    short_horizon: StrictBool = False
    settlement_bound: Duration | None = None
    probe_gap: Duration = timedelta(0)
    redispatch_limit: Count = 3
    key_records: KeyRecords = KeyRecords.SUCCESSES
    key_generations: Annotated[StrictInt, Field(ge=1, le=100)] = 1
    requeue_after_operator_proof: StrictBool = False
    unknown_alert_after: PositiveDuration = timedelta(minutes=5)
    unknown_review_after: PositiveDuration = timedelta(hours=24)
    non_intent_fields: tuple[StrictStr, ...] = ()
    key_format: KeyFormat = KeyFormat.BASE64URL
    key_max_length: Annotated[StrictInt, Field(ge=1, le=10_000)] = 255
    key_quoted: StrictBool = False
    arguments: Schema
    output: Annotated[Schema | None, EMPTY_IS_ABSENT] = None
    redact: Redaction = Field(default_factory=Redaction)
    http: HttpTerms | None = None
    probe: ProbeTerms | None = None
    listing: Annotated[ListingTerms | None, EMPTY_IS_ABSENT] = None
    sandbox: Annotated[SandboxTerms | None, EMPTY_IS_ABSENT] = None
    sql: SqlTerms | None = None
    simulated: SimulatedTerms | None = None
    stripe: StripeTerms | None = None
    mcp: McpTerms | None = None
    options: dict[str, Any] = Field(default_factory=dict)

    @classmethod
    def from_document(cls, document: bytes) -> Self:
        """Read a pinned document.

        Rules between fields are not asked again: an effect in flight keeps the contract
        under which it was accepted, also where a later release would refuse it.
        """
        return cls.model_validate(parse_canonical(document), context={"pinned": True})

    def document(self) -> bytes:
        """Return the canonical JSON that is the contract's identity."""
        return self.canonical_document

    def digest(self) -> bytes:
        """Return the SHA-256 of `document`."""
        return hashlib.sha256(self.canonical_document).digest()

    @property
    def redispatches_under_key(self) -> bool:
        """Whether the same key may be sent again after ambiguity, inside its horizon."""
        return self.safety is SafetyClass.IDEMPOTENT and self.key_records in {
            KeyRecords.ALL_ANSWERS,
            KeyRecords.COMMITS,
        }

    @property
    def probe_timeout(self) -> timedelta:
        """How long one lookup may take."""
        own = self.probe.timeout if self.probe is not None else None
        return own or self.attempt_timeout

    @property
    def recovery_horizon(self) -> timedelta:
        """The longest regular recovery, from the first attempt to the last lookup."""
        return recovery_horizon(self)

    @property
    def guarantee(self) -> str:
        """The sentence that this contract can honestly promise."""
        return _guarantee(self)

    def check_arguments(self, arguments: Mapping[str, Any]) -> None:
        """Accept arguments that the schema allows and the request can carry.

        Raises:
            InvalidArguments: with pointers to the places; values are never repeated.
        """
        pointers = argument_errors(self.arguments, arguments)
        if pointers:
            raise InvalidArguments(
                "The arguments do not fit the tool's schema.", pointers=pointers
            )
        key_place = self._key_place
        if key_place is not None and not has_room(arguments, pointer_tokens(key_place)):
            raise InvalidArguments(
                "The place of the downstream key is taken.", pointers=(key_place,)
            )
        if self.http is None:
            return
        for url in (self.http.url, self.probe and self.probe.url):
            if url:
                fill_url(url, {"arguments": arguments, "downstream_key": "k"})

    @property
    def _key_place(self) -> str | None:
        if self.mcp is not None:
            return self.mcp.key_argument
        return None if self.http is None else self.http.key_body

    @cached_property
    def canonical_document(self) -> bytes:
        """The document, made once when the contract loads."""
        return canonical(self.model_dump(mode="json", exclude_defaults=True))

    @model_validator(mode="after")
    def _check_rules(self, info: ValidationInfo) -> Self:
        _ = self.canonical_document
        context = info.context or {}
        if context.get("pinned"):
            return self
        reasons = broken_rules(self, context.get("clock_margin", CLOCK_MARGIN))
        if reasons:
            raise ContractRulesBroken(reasons)
        return self


def _guarantee(contract: EffectContract) -> str:
    strong = contract.probe is not None and contract.probe.strongly_consistent
    match contract.safety:
        case SafetyClass.TRANSACTIONAL:
            return "Exactly one committed local effect per operation key."
        case SafetyClass.IDEMPOTENT:
            return (
                "Exactly one observable effect while the target keeps its contract,"
                " within the key's retention; after it nothing is sent again."
            )
        case SafetyClass.RECONCILABLE if strong:
            return (
                "Converges to one effect if the lookup is truthful and the settlement"
                " bound holds; otherwise manual review."
            )
        case SafetyClass.RECONCILABLE:
            return (
                "Never sent again after a lost answer, since the lookup proves presence"
                " only; what it does not find goes to manual review."
            )
        case SafetyClass.UNSAFE:
            return (
                "No duplicate issued by the broker; a lost answer stays outcome_unknown"
                " until somebody looks, and the effect may be missing."
            )
