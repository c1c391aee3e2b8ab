"""Query parameters."""

from __future__ import annotations

import base64
import binascii
from datetime import timedelta
from typing import Annotated, Final
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from effect_broker.domain.durations import parse_duration
from effect_broker.domain.errors import InvalidRequest
from effect_broker.domain.status import EffectStatus
from effect_broker.ports import EffectQuery

PAGE_DEFAULT: Final = 50
PAGE_MAX: Final = 100
"""Effects in one answer: a page stays well under a gateway's limit on a body."""

Printable = Annotated[str, Field(min_length=1, max_length=255, pattern=r"^[\x20-\x7e]+$")]


class PageParameters(BaseModel):
    """What a list may be narrowed to; a misspelt filter is refused, not ignored."""

    model_config = ConfigDict(extra="forbid")

    status: EffectStatus | None = Field(
        None,
        description="outcome_unknown lists every unproved effect, whatever its status is"
        " meanwhile.",
    )
    contradicted: bool = Field(
        False,
        description="Only settled effects against which a late answer speaks: a person"
        " must look.",
    )
    tool: Printable | None = None
    older_than: Annotated[str, Field(max_length=32)] | None = Field(
        None, description="A span such as 30s, 5m or 24h, counted from the reservation."
    )
    operation_prefix: Printable | None = None
    limit: Annotated[int, Field(ge=1, le=PAGE_MAX)] = PAGE_DEFAULT
    cursor: Annotated[str, Field(max_length=64)] | None = Field(
        None, description="next_cursor of the page before."
    )

    def query(self) -> EffectQuery:
        """Return the ledger's query, for one effect more than the page holds.

        Raises:
            InvalidRequest: a span or a cursor that is none.
        """
        unknown = self.status is EffectStatus.OUTCOME_UNKNOWN
        return EffectQuery(
            status=None if unknown else self.status,
            unknown=unknown,
            contradicted=self.contradicted,
            tool=self.tool,
            older_than=_span(self.older_than),
            operation_prefix=self.operation_prefix,
            limit=self.limit + 1,
            after=_after(self.cursor),
        )


class HistoryParameters(BaseModel):
    """Which points of a history are asked for."""

    model_config = ConfigDict(extra="forbid")

    at_sequence: Annotated[int, Field(ge=1)] | None = None
    compare_to: Annotated[int, Field(ge=1)] | None = None


def cursor_after(effect_id: UUID) -> str:
    """Return the cursor that continues a list after this effect."""
    return base64.urlsafe_b64encode(effect_id.bytes).rstrip(b"=").decode("ascii")


def _span(text: str | None) -> timedelta | None:
    if text is None:
        return None
    try:
        return parse_duration(text)
    except ValueError:
        raise InvalidRequest(
            "older_than must be a span such as 30s, 5m or 24h."
        ) from None


def _after(cursor: str | None) -> UUID | None:
    if cursor is None:
        return None
    try:
        return UUID(bytes=base64.urlsafe_b64decode(cursor + "=="))
    except (binascii.Error, ValueError):
        raise InvalidRequest("cursor is not one that this API gave.") from None
