"""What the ledger is told and answers: claims, steps, snapshots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from uuid import UUID

from effect_broker.domain.attempt import Attempt
from effect_broker.domain.intent import Intent
from effect_broker.domain.resolution import SendRefusal
from effect_broker.domain.status import EffectStatus
from effect_broker.domain.transition import Transition
from effect_broker.domain.work import WorkState


@dataclass(frozen=True, slots=True)
class ContractTerms:
    """A contract that this process can dispatch, and the scope its credentials resolve
    to.
    """

    contract_id: int
    scope_digest: bytes


@dataclass(frozen=True, slots=True)
class ClaimOrder:
    """What one claim may take.

    `token` is fresh for each acquisition. `effect_ids` narrows the claim to nudged
    effects; without it due work is taken fairly over tenants. `budget` is the rest of the
    invocation: an attempt whose timeout and margin do not fit is left alone.
    `unsafe_limit` bounds how many unsafe effects one process may hold at once.
    """

    token: UUID
    worker: str
    limit: int
    terms: Sequence[ContractTerms]
    clock_margin: timedelta
    budget: timedelta | None = None
    effect_ids: Sequence[UUID] | None = None
    unsafe_limit: int = 1


@dataclass(frozen=True, slots=True)
class Claim:
    """Work that this process holds: the intent, its state after the claim, the fence.

    `now` is the ledger's clock at the claim. For a dispatch claim `attempt` is the
    committed attempt row; for a reconcile claim it is None.
    """

    token: UUID
    intent: Intent
    work: WorkState
    now: datetime
    lease_until: datetime
    attempt: Attempt | None = None
    downstream_key: str = ""


@dataclass(frozen=True, slots=True)
class Refused:
    """A due effect that may not be sent, as it stood; nothing was written."""

    intent: Intent
    work: WorkState
    now: datetime
    refusal: SendRefusal


@dataclass(frozen=True, slots=True)
class Claimed:
    """The answer to a claim; `more` says that due work was left behind."""

    claims: Sequence[Claim] = ()
    refused: Sequence[Refused] = ()
    more: bool = False


@dataclass(frozen=True, slots=True)
class Step:
    """One transition to write, with its fence: expected version, and the claim's token if
    one holds it.
    """

    tenant_id: UUID
    effect_id: UUID
    version: int
    token: UUID | None
    transition: Transition
    actor: str
    attempt: Attempt | None = None
    speaks_for_all: bool = False
    tool: str = ""


class StepStatus(StrEnum):
    """What became of one step."""

    APPLIED = "applied"
    FENCED = "fenced"
    STALE = "stale"
    PROOF_STANDS = "proof_stands"


@dataclass(frozen=True, slots=True)
class StepResult:
    """`STALE`: the claim still stands but evidence moved the version; decide again on
    `work`.

    `FENCED`: the claim is lost; an ending that came with the step was kept as late
    evidence (`late_recorded`). `PROOF_STANDS`: proof of commit forbids this arrow;
    nothing written. `version` is the effect's version after the call. `contradicted`: the
    late evidence speaks against a terminal state, and an operator must look.
    """

    effect_id: UUID
    status: StepStatus
    version: int
    work: WorkState | None = None
    now: datetime | None = None
    late_recorded: bool = False
    contradicted: bool = False


@dataclass(frozen=True, slots=True)
class Reserved:
    """What stands under an operation key after a reservation."""

    intent: Intent
    created: bool
    status: EffectStatus
    version: int
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class Snapshot:
    """An effect as a reader sees it; `work` is None once it is terminal."""

    intent: Intent
    status: EffectStatus
    version: int
    updated_at: datetime
    work: WorkState | None
    reason: str
    now: datetime


@dataclass(frozen=True, slots=True)
class Lapsed:
    """An effect whose lease ended; its outcome is unknown (or its probe was
    interrupted).
    """

    tenant_id: UUID
    effect_id: UUID
    status: EffectStatus
    safety: str


@dataclass(frozen=True, slots=True)
class EffectQuery:
    """A page of a tenant's effects, newest first.

    `unknown` lists every unproved one, whatever its status; `contradicted` every terminal
    one against which late evidence speaks.
    """

    status: EffectStatus | None = None
    unknown: bool = False
    contradicted: bool = False
    tool: str | None = None
    older_than: timedelta | None = None
    operation_prefix: str | None = None
    limit: int = 50
    after: UUID | None = None


@dataclass(frozen=True, slots=True)
class Resolution:
    """An operator's decision as it is kept beside its event; free text sealed."""

    decision_id: str
    decision: str
    actor: str
    observed_at: datetime | None
    sealed: bytes
    data_key_id: str


@dataclass(frozen=True, slots=True)
class DispatchHold:
    """Why no effect may be claimed for dispatch, and since when."""

    reason: str
    since: datetime


@dataclass(frozen=True, slots=True)
class UnknownCount:
    """How many effects of a contract are unproved, over all tenants, and the oldest."""

    contract: str
    tool: str
    count: int
    oldest_age_seconds: float
