"""What a contract says about an HTTP target: the request, its answers, its lookup."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Final, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    StrictStr,
    model_validator,
)

from effect_broker.domain.durations import PositiveDuration
from effect_broker.domain.pointer import JsonPointer
from effect_broker.domain.url_template import placeholders

_TOKEN: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}")
_VISIBLE: Final = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")
_SECRET_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9/_.-]{0,254}")
_STATUS: Final = re.compile(r"[2-5](?:xx|\d\d)(?:/.{1,128})?")

CLIENT_HEADERS: Final = frozenset(
    {
        "host",
        "content-length",
        "transfer-encoding",
        "connection",
        "expect",
        "te",
        "trailer",
        "upgrade",
        "accept-encoding",
    }
)
"""Headers that the HTTP client alone sets: another value would change the framing."""

CREDENTIAL_HEADERS: Final = frozenset(
    {"authorization", "proxy-authorization", "cookie", "x-api-key", "api-key"}
)
"""Headers whose value is a credential, and so never stands in a contract."""

KEY_HEADERS: Final = frozenset({"idempotency-key", "x-idempotency-key"})
"""Headers that invite a repeat on the way; only a target that honours them gets one."""


class Terms(BaseModel):
    """A part of a contract: immutable, and an unknown field is an error that names it."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class SecretRef(Terms):
    """The name of a secret; its value is resolved where requests are sent, nowhere else.

    `prefix` goes before the value, for a header that wants a scheme such as `Bearer `.
    """

    secret: Annotated[StrictStr, Field(pattern=f"^{_SECRET_NAME.pattern}$")]
    prefix: Annotated[StrictStr, Field(pattern=r"^[\x20-\x7e]{0,64}$")] = ""

    def render(self, value: str) -> str:
        """Return the text to send for the secret's value."""
        return self.prefix + value


def _header_name(name: str) -> str:
    if not _TOKEN.fullmatch(name):
        raise ValueError(f"{name!r} is no header name")
    if name.lower() in CLIENT_HEADERS:
        raise ValueError(f"{name} is set by the client alone")
    return name


def _header_value(value: str | SecretRef) -> str | SecretRef:
    if isinstance(value, str) and not _VISIBLE.fullmatch(value):
        raise ValueError("a header value is printable ASCII without spaces around it")
    return value


def _headers(headers: dict[str, str | SecretRef]) -> dict[str, str | SecretRef]:
    lowered = [name.lower() for name in headers]
    for name, value in headers.items():
        if lowered.count(name.lower()) > 1:
            raise ValueError(f"{name} stands twice")
        if name.lower() in CREDENTIAL_HEADERS and isinstance(value, str):
            raise ValueError(
                f'{name} is a credential: write {name} = {{ secret = "a/name" }}'
            )
    return headers


HeaderName = Annotated[StrictStr, AfterValidator(_header_name)]
Headers = Annotated[
    dict[
        HeaderName,
        Annotated[StrictStr | SecretRef, AfterValidator(_header_value)],
    ],
    AfterValidator(_headers),
]
OptionalHeader = Annotated[
    HeaderName | None, BeforeValidator(lambda value: None if value == "" else value)
]
UrlText = Annotated[StrictStr, Field(min_length=1, max_length=2_000)]
Scope = Annotated[StrictStr, Field(min_length=1, max_length=255)]


class Meaning(StrEnum):
    """What an answer says about the effect; whatever is not listed is ambiguous."""

    COMMITTED = "committed"
    REJECTED = "rejected"
    REJECTED_FINAL = "rejected_final"
    NOT_EXECUTED = "not_executed"
    IN_PROGRESS = "in_progress"
    KEY_CONFLICT = "key_conflict"


class MeaningTable(BaseModel):
    """Statuses (`409`), status classes (`2xx`) and statuses with a code (`409/in_use`).

    `code` points to where the code stands in the answer.
    """

    model_config = ConfigDict(frozen=True, extra="allow", hide_input_in_errors=True)
    __pydantic_extra__: dict[str, Meaning] = Field(init=False)

    code: JsonPointer | None = None

    @property
    def entries(self) -> Mapping[str, Meaning]:
        """The table without `code`."""
        return self.__pydantic_extra__

    def of(self, status: int, code: str | None = None) -> Meaning | None:
        """Look an answer up, the most specific entry first; None is ambiguous."""
        family = f"{status // 100}xx"
        asked = [str(status), family]
        if code is not None:
            asked = [f"{status}/{code}", f"{family}/{code}", *asked]
        return next((self.entries[key] for key in asked if key in self.entries), None)

    @model_validator(mode="after")
    def _check(self) -> MeaningTable:
        for key, meaning in self.entries.items():
            if not _STATUS.fullmatch(key):
                raise ValueError(f"{key!r} is neither a status, a class nor status/code")
            if key == "5xx" and meaning in PROVES_ABSENCE:
                raise ValueError(
                    f"5xx cannot mean {meaning}: a server error may hide a commit; name"
                    " single statuses that the target documents"
                )
            if "/" in key and self.code is None:
                raise ValueError(f"{key!r} needs 'code': where is it in the answer?")
        if self.entries and Meaning.COMMITTED not in self.entries.values():
            raise ValueError("no status means committed, so nothing could ever succeed")
        return self


PROVES_ABSENCE: Final = frozenset(
    {Meaning.REJECTED, Meaning.REJECTED_FINAL, Meaning.NOT_EXECUTED}
)
"""Meanings after which nothing stands at the target."""


class HttpTerms(Terms):
    """The one mutating request of an attempt.

    With `base_url` the URL is a path below it; the base may be a secret reference, so
    that one contract serves a test and a live target. Base URL, account and mode are the
    target scope: a change between attempts stops the effect. `rotates` declares that the
    credential changes within the same account.
    """

    method: Literal["POST", "PUT", "PATCH", "DELETE"] = "POST"
    url: UrlText
    base_url: UrlText | SecretRef | None = None
    key_header: OptionalHeader = None
    key_body: JsonPointer | None = None
    headers: Headers = Field(default_factory=dict)
    body: Literal["json", "form", "none"] = "json"
    external_id: JsonPointer | None = None
    account: Scope | None = None
    rotates: StrictBool = False
    mode: Scope | None = None
    target_enforces_deadline: OptionalHeader = None
    allow_private: StrictBool = False
    meaning: MeaningTable = Field(default_factory=MeaningTable)

    @property
    def carries_key(self) -> bool:
        """Whether the target sees the downstream key: in a header, the body, the URL."""
        return (
            self.key_header is not None
            or self.key_body is not None
            or "downstream_key" in placeholders(self.url)
        )


class Consistency(StrEnum):
    """What a lookup's answer is worth: an eventual one proves presence only."""

    STRONG = "strong"
    EVENTUAL = "eventual"


class ProbeTerms(Terms):
    """The lookup that says whether the effect exists.

    `found` points to the object in a 2xx answer; nothing there means absent, as does a
    status listed in `absent`. `match` points to where the answer repeats the downstream
    key: another value there is no answer about this effect. Headers are those of the
    request unless given. Without `timeout` the attempt's timeout holds. URL and `found`
    are required with the http adapter; with mcp `found` points into the lookup tool's
    structured result; others bring a lookup of their own.
    """

    method: Literal["GET"] = "GET"
    url: UrlText | None = None
    headers: Headers | None = None
    consistency: Consistency
    found: JsonPointer | None = None
    external_id: JsonPointer | None = None
    match: JsonPointer | None = None
    absent: tuple[Annotated[StrictStr, Field(pattern=r"^4\d\d$")], ...] = ()
    timeout: PositiveDuration | None = None

    @property
    def strongly_consistent(self) -> bool:
        """Whether absence can be believed once everything has settled."""
        return self.consistency is Consistency.STRONG


class ListingTerms(Terms):
    """How an audit reads the target's own objects over a window.

    The URL is filled with `{created_after}` and `{created_before}` (as `time` says) and,
    on further pages, with `{cursor}`. `external_id` and `key` point into one item.
    """

    url: UrlText
    headers: Headers | None = None
    items: JsonPointer
    external_id: JsonPointer
    key: JsonPointer | None = None
    time: Literal["rfc3339", "unix"] = "rfc3339"
    next_cursor: JsonPointer | None = None
    timeout: PositiveDuration | None = None


class SandboxTerms(Terms):
    """Where `contracts verify` may try the contract out, and with what.

    `other_arguments` differ in payload (drift); `rejected_arguments` are refused by the
    target. What is not given here is taken from the request.
    """

    base_url: UrlText | SecretRef | None = None
    account: Scope | None = None
    mode: Scope | None = None
    headers: Headers = Field(default_factory=dict)
    arguments: dict[str, Any]
    other_arguments: dict[str, Any] | None = None
    rejected_arguments: dict[str, Any] | None = None
