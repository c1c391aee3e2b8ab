"""What both forms of the client decide alike: what an answer means, when to repeat."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import httpx2

from effect_broker.client.calls import Call
from effect_broker.client.errors import BrokerDefect, Unreachable, refusal_of
from effect_broker.domain.errors import (
    EffectBrokerError,
    LedgerUnavailable,
    RateLimited,
    SchemaMismatch,
)

T = TypeVar("T")

TIMEOUT_SECONDS: Final = 10.0
"""How long an answer is waited for, beyond what the broker was asked to hold it back."""

PATIENCE_SECONDS: Final = 30.0
"""How long repeats go on, unless told: a failover of the ledger's database fits in."""

FIRST_PAUSE_SECONDS: Final = 0.2
LONGEST_PAUSE_SECONDS: Final = 5.0

_AWAY: Final = (502, 503, 504)
"""What stands between client and broker says so too; the key makes a repeat safe."""


def headers_of(api_key: str) -> dict[str, str]:
    """Return what every request carries."""
    return {
        "Authorization": f"Bearer {api_key}",
        "Accept": "application/json, application/problem+json",
        "User-Agent": "effect-broker-client",
    }


def timeout_of(call: Call[Any], seconds: float) -> float:
    """Return how long to wait for one answer."""
    return seconds + call.wait_seconds


def read(call: Call[T], answer: httpx2.Response) -> T:
    """Return what the broker said.

    Raises:
        EffectBrokerError: it refused, or what answered is no broker.
    """
    document = _document(answer)
    if answer.status_code in (200, 202):
        try:
            return call.read(document)
        except (KeyError, TypeError, ValueError):
            raise BrokerDefect(
                "What answered is no broker of this release.", status=answer.status_code
            ) from None
    if answer.status_code in _AWAY and "code" not in document:
        raise Unreachable(_lost(f"something before the broker said {answer.status_code}"))
    raise refusal_of(answer.status_code, document)


def unreachable(error: httpx2.HTTPError) -> Unreachable:
    """Return what a transport's failure means: nothing is known."""
    return Unreachable(_lost(type(error).__name__))


@dataclass(slots=True)
class Repeats:
    """Decides about repeats of one call; `now` is any monotonic reading in seconds."""

    call: Call[Any]
    patience_seconds: float
    started: float
    pause: float = FIRST_PAUSE_SECONDS

    def pause_after(
        self, error: EffectBrokerError, answer: httpx2.Response | None, now: float
    ) -> float | None:
        """Return how long to wait before the same request again; None: give up.

        Only an answer that says nothing was decided is repeated, and only where the call
        is safe to repeat. An answer's Retry-After is kept to.
        """
        if not self.call.may_be_repeated or not _undecided(error):
            return None
        drawn = self.pause * random.uniform(0.5, 1.0)  # noqa: S311 no secret hangs on it
        self.pause = min(self.pause * 2, LONGEST_PAUSE_SECONDS)
        wait = max(drawn, _asked_pause(answer))
        left = self.patience_seconds - (now - self.started)
        return wait if wait <= left else None


def _undecided(error: EffectBrokerError) -> bool:
    if isinstance(error, SchemaMismatch):
        return False
    return isinstance(error, Unreachable | LedgerUnavailable | RateLimited)


def _asked_pause(answer: httpx2.Response | None) -> float:
    text = "" if answer is None else answer.headers.get("retry-after", "")
    return float(text) if text.isascii() and text.isdigit() else 0.0


def _document(answer: httpx2.Response) -> Mapping[str, Any]:
    try:
        document = json.loads(answer.content)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


def _lost(why: str) -> str:
    return (
        f"No answer from the broker ({why}). What was asked may be recorded; the same"
        " request with the same key is safe to repeat."
    )
