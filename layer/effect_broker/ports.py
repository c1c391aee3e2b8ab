"""What the use cases need from the outside, as roles; no port knows a technology."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Protocol, runtime_checkable
from uuid import UUID

from effect_broker.domain.attempt import Attempt
from effect_broker.domain.contract import EffectContract
from effect_broker.domain.event import EffectEvent
from effect_broker.domain.intent import EffectRecord, Intent
from effect_broker.domain.outcome import Committed, Outcome, ProbeResult
from effect_broker.domain.receipt import Receipt
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
    """A page of a tenant's effects, newest first; `unknown` includes every unproved
    one.
    """

    status: EffectStatus | None = None
    unknown: bool = False
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


class Ledger(Protocol):
    """The only authority. Each call is one round trip and at most one commit."""

    async def reserve(self, intents: Sequence[Intent]) -> Sequence[Reserved]:
        """Record intents under their operation keys, or say what stands there; replays
        write nothing.
        """

    async def find(self, tenant_id: UUID, operation_key: str) -> Reserved | None:
        """Return what stands under an operation key, without writing."""

    async def claim(self, order: ClaimOrder) -> Claimed:
        """Take due effects and start their attempts in one commit, confirmed before it
        returns.
        """

    async def claim_reconciliation(self, order: ClaimOrder) -> Claimed:
        """Take due unknown effects for reconciliation, and unclaimed ones with proof of
        commit.
        """

    async def record(self, steps: Sequence[Step]) -> Sequence[StepResult]:
        """Write decided transitions; a lost claim stores its ending as late evidence
        instead.
        """

    async def resolve(self, step: Step, resolution: Resolution) -> StepResult:
        """Write an operator's decision once; the same decision_id answers what it did."""

    async def resolution(
        self, tenant_id: UUID, effect_id: UUID, decision_id: str
    ) -> tuple[Resolution, int] | None:
        """Return an operator's earlier decision and the version it made."""

    async def compensate(
        self,
        tenant_id: UUID,
        effect_id: UUID,
        compensated_by: UUID,
        *,
        actor: str,
        sealed_reason: bytes,
        data_key_id: str,
    ) -> StepResult:
        """Link a succeeded effect to the succeeded effect that compensates it."""

    async def renew(
        self, token: UUID, effect_ids: Sequence[UUID], lease: timedelta
    ) -> frozenset[UUID]:
        """Extend leases still held under `token`; what is missing from the answer is
        lost.
        """

    async def expire_leases(
        self, limit: int, *, clock_margin: timedelta
    ) -> Sequence[Lapsed]:
        """Turn lapsed leases into unknown outcomes; never into permission to run
        again.
        """

    async def overdue(self, limit: int, *, clock_margin: timedelta) -> Sequence[Refused]:
        """Return unclaimed effects past their submit deadline, whoever could dispatch
        them.
        """

    async def hold_dispatch(self, reason: str) -> None:
        """Stop every dispatch claim until an operator releases it; a hold that stands is
        kept.
        """

    async def release_dispatch(self, actor: str) -> bool:
        """Let dispatch go on; False where nothing was held."""

    async def dispatch_hold(self) -> DispatchHold | None:
        """Say why dispatch is held, if it is."""

    async def get(self, tenant_id: UUID, effect_id: UUID) -> Snapshot | None:
        """Read an effect."""

    async def attempts(self, tenant_id: UUID, effect_id: UUID) -> Sequence[Attempt]:
        """Read an effect's attempts with their endings, by ordinal."""

    async def events(self, tenant_id: UUID, effect_id: UUID) -> Sequence[EffectEvent]:
        """Read an effect's history, by sequence."""

    async def receipt(self, tenant_id: UUID, effect_id: UUID) -> Receipt | None:
        """Read the terminal row of an effect."""

    async def page(self, tenant_id: UUID, query: EffectQuery) -> Sequence[Snapshot]:
        """List effects by keyset."""


@dataclass(frozen=True, slots=True)
class Tenant:
    """A tenant and the id of its HMAC key."""

    tenant_id: UUID
    slug: str
    name: str
    hmac_key_id: str
    disabled: bool


@dataclass(frozen=True, slots=True)
class Credential:
    """A verified API key: whose it is and what it may do."""

    key_id: str
    tenant_id: UUID
    tenant_slug: str
    scopes: frozenset[str]


@dataclass(frozen=True, slots=True)
class PublishedContract:
    """A registry row; `active` marks the version that new effects of its tool pin."""

    contract_id: int
    contract: EffectContract
    digest: bytes
    active: bool


class Registry(Protocol):
    """Tenants, keys and contracts: read often, written by operators."""

    async def tenant(
        self, *, slug: str | None = None, tenant_id: UUID | None = None
    ) -> Tenant | None:
        """Return a tenant by slug or id."""

    async def create_tenant(
        self, slug: str, name: str, hmac_key_id: str
    ) -> tuple[Tenant, bool]:
        """Create a tenant, or return the one with this slug (False)."""

    async def set_disabled(self, tenant_id: UUID, disabled: bool) -> None:
        """Disable or enable a tenant."""

    async def tenants(self) -> Sequence[Tenant]:
        """List tenants."""

    async def add_key(
        self,
        tenant_id: UUID,
        key_id: str,
        secret_hash: bytes,
        scopes: Sequence[str],
        expires_at: datetime | None,
    ) -> None:
        """Store a hashed API key."""

    async def key(self, key_id: str) -> tuple[Credential, bytes] | None:
        """Return a live key (neither revoked nor expired, tenant enabled) with its secret
        hash.
        """

    async def revoke_key(self, key_id: str) -> bool:
        """Revoke a key; False where there is none."""

    async def publish(self, contract: EffectContract) -> tuple[PublishedContract, bool]:
        """Add a contract version (True), or return the equal one (False); makes it
        active.

        Raises:
            ContractConflict: the version exists with another document.
        """

    async def contracts(self) -> Sequence[PublishedContract]:
        """Return every published contract."""


class TargetAdapter(Protocol):
    """Target-specific truth for one contract."""

    @property
    def contract(self) -> EffectContract:
        """The contract this adapter speaks for."""

    async def dispatch(self, effect: EffectRecord, *, attempt_id: UUID) -> Outcome:
        """Make at most one mutating request and say what it proved."""

    async def probe(self, effect: EffectRecord) -> ProbeResult:
        """Ask the target's authority about the effect; never mutates."""


@dataclass(frozen=True, slots=True)
class Deadline:
    """Until when this attempt may put bytes on the wire, on every clock the host has.

    `monotonic`, `boottime` and `wall` are readings in seconds at which the send is over;
    any one past forbids the send (design rule 7).
    """

    monotonic: float
    boottime: float
    wall: float


class LocalMutation(Protocol):
    """One mutation of the ledger's own database, made inside the transaction that records
    it.
    """

    def seconds_left(self) -> float | None:
        """Return until when the mutation must have ended; None is without end."""

    async def apply(self, cursor: Any) -> Committed:
        """Mutate through `cursor`, and say what was done; commits nothing itself.

        Raises:
            Exception: nothing is to be done; `refused` tells what that proves.
        """

    def refused(self, error: BaseException) -> Outcome:
        """Say what an error proves whose transaction was rolled back."""


@runtime_checkable
class LocalMutating(Protocol):
    """What an adapter is besides whose target is the ledger's own database; its
    `dispatch` is not called.
    """

    def mutation(self, effect: EffectRecord) -> LocalMutation:
        """Return the effect's mutation, bound to the attempt's deadline."""


StepFor = Callable[[Committed, WorkState, datetime], Step]
"""The step that records a mutation, decided on the claim's row as it is locked."""


@dataclass(frozen=True, slots=True)
class Transacted:
    """A mutation that was committed together with its step."""

    outcome: Committed
    step: Step
    result: StepResult


class Transactor(Protocol):
    """Carries a mutation out in the ledger's own transaction."""

    async def transact(
        self, claim: Claim, mutation: LocalMutation, step_for: StepFor
    ) -> Transacted | Outcome:
        """Check the claim, mutate and record in one commit; an outcome says that nothing
        was done, or that nothing is known.
        """


class AdapterSource(Protocol):
    """Builds adapters for contracts and knows the target scope of each."""

    async def scope_digest(self, contract: EffectContract) -> bytes:
        """Digest base URL, account and mode as the credentials resolve to now."""

    async def adapter(
        self, contract: EffectContract, *, scope_digest: bytes, deadline: Deadline | None
    ) -> TargetAdapter:
        """Return an adapter bound to the scope that the attempt recorded, and to its
        deadline.
        """


class Nudger(Protocol):
    """Sends hints with an effect id only; losing or doubling one is harmless.

    Neither call raises: a hint that cannot be sent is counted, and the sweep finds the
    work.
    """

    async def dispatch(
        self, effect_ids: Sequence[UUID], *, delay: timedelta = timedelta(0)
    ) -> None:
        """Hint that effects may be dispatched after `delay`."""

    async def reconcile(
        self, effect_ids: Sequence[UUID], *, delay: timedelta = timedelta(0)
    ) -> None:
        """Hint that effects may be reconciled after `delay`."""


@dataclass(frozen=True, slots=True)
class Sealed:
    """A ciphertext with the id of the key that opens it."""

    ciphertext: bytes
    key_id: str


class Cipher(Protocol):
    """Seals what must not stand in the clear; bound to tenant, effect and column."""

    def seal(
        self, plaintext: bytes, *, tenant_id: UUID, effect_id: UUID, column: str
    ) -> Sealed:
        """Encrypt under the active key."""

    def open(
        self,
        ciphertext: bytes,
        *,
        key_id: str,
        tenant_id: UUID,
        effect_id: UUID,
        column: str,
    ) -> bytes:
        """Decrypt.

        Raises:
            CipherError: the key is gone, or the ciphertext was written elsewhere.
        """


class KeyDeriver(Protocol):
    """Derives downstream keys from tenant keys that never leave it."""

    def mac(self, hmac_key_id: str, message: bytes) -> bytes:
        """Return HMAC-SHA-256 under the named key.

        Raises:
            CipherError: no such key.
        """


NewId = Callable[[], UUID]
"""Makes a fresh identifier; randomness and clocks stay outside the use cases."""


class SecretSource(Protocol):
    """Resolves secret references, in dispatching and reconciling processes only."""

    async def secret(self, name: str) -> str:
        """Return a secret's value.

        Raises:
            SecretNotFound: no such secret.
        """


class Clock(Protocol):
    """The host's clocks, passed so that tests can hold them."""

    def monotonic(self) -> float:
        """Seconds that stand still only while the host is off."""

    def boottime(self) -> float:
        """Seconds that go on while the host is suspended."""

    def wall(self) -> float:
        """Seconds since the epoch."""


class Watchdog(Protocol):
    """Ends what outlives its send deadline: aborts the connection, in the last resort the
    process.
    """

    def guard(self, deadline: Deadline) -> AbstractContextManager[None]:
        """Watch the block until it is left; past the deadline it must not go on."""


class Meter(Protocol):
    """Counts and times what happens; never sees a tenant, an argument or a result."""

    def count(self, name: str, value: float = 1, **labels: str) -> None:
        """Add to a counter named in `telemetry.NAMES`."""

    def observe(self, name: str, value: float, **labels: str) -> None:
        """Record one observation (seconds) of a histogram."""

    def gauge(self, name: str, value: float, **labels: str) -> None:
        """Set a gauge."""
