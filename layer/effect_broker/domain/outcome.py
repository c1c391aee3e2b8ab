"""What one attempt, or one probe, proved: closed sums in which a lost answer cannot look
like a failure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

Evidence = Mapping[str, Any]
"""Sanitised facts (status codes, digests, error categories): never an argument, result or
secret.
"""


@dataclass(frozen=True, slots=True)
class Committed:
    """The target's own answer says that the effect exists.

    `output` is the parsed answer, or None where it could not be read; `raw` keeps the
    bytes in that case and `flags` say why (`output_unparsed`, `output_schema_mismatch`,
    `output_truncated`).
    """

    external_id: str | None
    output: Any = None
    raw: bytes | None = None
    flags: tuple[str, ...] = ()
    target_time: datetime | None = None
    evidence: Evidence = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Rejected:
    """The target answered, and its contract says that this attempt changed nothing.

    `not_executed` marks an answer from in front of the target's key record (401, 429): it
    uses up no limit and speaks for this attempt alone. `from_key_record` marks an answer
    that comes from the key's own record; where the contract keeps all answers it speaks
    for every attempt under the key (design rule 5).
    """

    reason: str
    final: bool = False
    not_executed: bool = False
    from_key_record: bool = False
    retry_after: timedelta | None = None
    evidence: Evidence = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NotSent:
    """Proof from the only connection used that no byte of the request left."""

    reason: str
    evidence: Evidence = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Ambiguous:
    """Nothing is proved: the effect may exist.

    `in_progress` marks a target that says the first request with this key still runs; it
    uses up no limit. `contract_violated` marks an answer that the contract rules out (key
    reused with other parameters, changed target scope): the effect goes to manual review.
    """

    reason: str
    evidence: Evidence = field(default_factory=dict)
    in_progress: bool = False
    contract_violated: bool = False
    retry_after: timedelta | None = None


Outcome = Committed | Rejected | NotSent | Ambiguous


class ProbeStatus(StrEnum):
    """What an authoritative lookup said."""

    COMMITTED = "committed"
    NOT_COMMITTED = "not_committed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """One authoritative question and its answer; a negative may still be inconclusive."""

    status: ProbeStatus
    external_id: str | None = None
    output: Any = None
    evidence: Evidence = field(default_factory=dict)
