from __future__ import annotations

import hashlib
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from effect_broker.domain.errors import (
    DecisionRefused,
    EffectNotFound,
    NotFound,
    VersionConflict,
)
from effect_broker.domain.receipt import ReceiptDraft, ReceiptKind, ReceiptSource
from effect_broker.ids import uuid7
from effect_broker.ledger.chain import first_break
from effect_broker.ports import Claim, Credential, Resolution, Step, StepStatus
from tests.conformance.ledgers import E, S, Store, lost, retryable, step, succeeded
from tests.guarantees import guarantee

DECISION = Resolution(
    decision_id="ticket-17",
    decision="committed",
    actor="operator:1",
    observed_at=datetime(2026, 1, 1, tzinfo=UTC),
    sealed=b"why, sealed",
    data_key_id="k1",
)


def resolved(claim: Claim) -> Step:
    return step(
        claim,
        E.RESOLVED_COMMITTED,
        S.SUCCEEDED,
        actor="operator:1",
        receipt=ReceiptDraft(
            kind=ReceiptKind.SUCCEEDED, source=ReceiptSource.OPERATOR, reason="operator"
        ),
    )


async def _unknown(store: Store) -> Claim:
    claim = await store.dispatching()
    await store.ledger.record([lost(claim, delay=None)])
    return await store.unheld(claim.work.effect_id)


async def test_a_decision_is_written_once_and_answers_what_it_did(store: Store) -> None:
    seen = await _unknown(store)
    first = await store.ledger.resolve(resolved(seen), DECISION)
    assert (first.status, first.version) == (StepStatus.APPLIED, 4)
    again = await store.ledger.resolve(resolved(seen), DECISION)
    assert again == first
    stored = await store.ledger.resolution(
        store.tenant_id, seen.work.effect_id, "ticket-17"
    )
    assert stored == (DECISION, 4)
    events = await store.ledger.events(store.tenant_id, seen.work.effect_id)
    assert events[-1].metadata == {"decision_id": "ticket-17", "reason": "because"}
    assert await store.status(seen.work.effect_id) is S.SUCCEEDED


async def test_a_decision_that_keeps_the_effect_live_is_written_once_too(
    store: Store,
) -> None:
    seen = await _unknown(store)
    requeued = step(
        seen,
        E.RESOLVED_NOT_COMMITTED,
        S.PREPARED,
        actor="operator:1",
        delay=timedelta(0),
        unproven=0,
        proven_through=1,
        unknown=False,
    )
    decision = replace(DECISION, decision="not_committed", observed_at=None)
    first = await store.ledger.resolve(requeued, decision)
    await store.claim(seen.work.effect_id)
    assert await store.ledger.resolve(requeued, decision) == first


async def test_two_decisions_on_one_version_are_one(store: Store) -> None:
    seen = await _unknown(store)
    await store.ledger.resolve(resolved(seen), DECISION)
    second = replace(DECISION, decision_id="ticket-18")
    result = await store.ledger.resolve(resolved(seen), second)
    assert result.status is StepStatus.FENCED
    assert (
        await store.ledger.resolution(store.tenant_id, seen.work.effect_id, "ticket-18")
        is None
    )


async def test_a_decision_on_an_older_version_returns_the_newer_state(
    store: Store,
) -> None:
    seen = await _unknown(store)
    asked = step(
        seen, E.RECONCILIATION_REQUESTED, S.OUTCOME_UNKNOWN, delay=None, unknown=True
    )
    await store.ledger.record([asked])
    result = await store.ledger.resolve(resolved(seen), DECISION)
    assert (result.status, result.version) == (StepStatus.STALE, 4)
    assert result.work == await store.work(seen.work.effect_id)


async def test_a_decision_loses_against_whoever_holds_the_effect(store: Store) -> None:
    seen = await _unknown(store)
    held = await store.requested(seen.work.effect_id)
    current = replace(resolved(seen), version=held.work.version)
    result = await store.ledger.resolve(current, DECISION)
    assert result.status is StepStatus.FENCED
    assert await store.status(seen.work.effect_id) is S.RECONCILING


@guarantee("tenant-from-credential")
async def test_another_tenant_neither_decides_nor_reads_decisions(store: Store) -> None:
    seen = await _unknown(store)
    foreign = replace(resolved(seen), tenant_id=uuid4())
    assert (await store.ledger.resolve(foreign, DECISION)).status is StepStatus.FENCED
    await store.ledger.resolve(resolved(seen), DECISION)
    assert (await store.ledger.resolve(foreign, DECISION)).status is StepStatus.FENCED
    assert (
        await store.ledger.resolution(uuid4(), seen.work.effect_id, "ticket-17") is None
    )


async def _succeeded(store: Store) -> Claim:
    claim = await store.dispatching()
    await store.ledger.record([succeeded(claim)])
    return claim


async def _link(store: Store, effect: Claim, by: Claim):  # type: ignore[no-untyped-def]
    return await store.ledger.compensate(
        store.tenant_id,
        effect.work.effect_id,
        by.work.effect_id,
        actor="operator:1",
        sealed_reason=b"sealed",
        data_key_id="k1",
    )


async def test_a_compensation_is_linked_and_the_receipt_stays(store: Store) -> None:
    charge, refund = await _succeeded(store), await _succeeded(store)
    before = await store.ledger.receipt(store.tenant_id, charge.work.effect_id)
    first = await _link(store, charge, refund)
    again = await _link(store, charge, refund)
    assert (first.status, first.version) == (StepStatus.APPLIED, 4)
    assert again == first
    assert await store.status(charge.work.effect_id) is S.COMPENSATED
    after = await store.ledger.receipt(store.tenant_id, charge.work.effect_id)
    assert after == before
    events = await store.ledger.events(store.tenant_id, charge.work.effect_id)
    assert (events[-1].type, events[-1].old_status, events[-1].new_status) == (
        E.COMPENSATION_LINKED,
        S.SUCCEEDED,
        S.COMPENSATED,
    )
    assert events[-1].metadata == {"compensated_by": str(refund.work.effect_id)}
    assert first_break(events) is None
    replayed = await store.reserve(store.intent(charge.intent.operation_key))
    assert replayed.status is S.COMPENSATED


async def test_only_what_has_succeeded_compensates_and_is_compensated(
    store: Store,
) -> None:
    done, unknown = await _succeeded(store), await _unknown(store)
    with pytest.raises(DecisionRefused, match="can be compensated"):
        await _link(store, unknown, done)
    with pytest.raises(DecisionRefused, match="has not succeeded"):
        await _link(store, done, unknown)
    with pytest.raises(DecisionRefused, match="itself"):
        await _link(store, done, done)


async def test_a_compensation_is_used_once_and_links_close_no_circle(
    store: Store,
) -> None:
    charge, refund, third = [await _succeeded(store) for _ in range(3)]
    await _link(store, charge, refund)
    with pytest.raises(DecisionRefused, match="compensates another"):
        await _link(store, third, refund)
    with pytest.raises(DecisionRefused, match="has not succeeded"):
        await _link(store, refund, charge)
    with pytest.raises(DecisionRefused, match="can be compensated, and once"):
        await _link(store, charge, third)
    await _link(store, refund, third)
    assert await store.status(refund.work.effect_id) is S.COMPENSATED


async def test_another_tenants_effect_neither_compensates_nor_is_compensated(
    store: Store,
) -> None:
    charge, refund = await _succeeded(store), await _succeeded(store)
    for tenant, effect, by in (
        (uuid4(), charge.work.effect_id, refund.work.effect_id),
        (store.tenant_id, uuid7(), refund.work.effect_id),
        (store.tenant_id, charge.work.effect_id, uuid7()),
    ):
        with pytest.raises(EffectNotFound):
            await store.ledger.compensate(
                tenant,
                effect,
                by,
                actor="operator:1",
                sealed_reason=b"",
                data_key_id="k1",
            )
    assert await store.status(charge.work.effect_id) is S.SUCCEEDED


async def test_a_link_meant_for_another_version_is_refused_unless_it_stands(
    store: Store,
) -> None:
    charge, refund = await store.dispatching(), await store.dispatching()
    await store.ledger.record([succeeded(charge), succeeded(refund)])
    effect, by = charge.work.effect_id, refund.work.effect_id

    async def link(expected_version: int | None) -> int:
        result = await store.ledger.compensate(
            store.tenant_id,
            effect,
            by,
            actor="operator:1",
            sealed_reason=b"",
            data_key_id="k1",
            expected_version=expected_version,
        )
        return result.version

    with pytest.raises(VersionConflict) as stale:
        await link(2)
    assert stale.value.version == 3
    assert await store.status(effect) is S.SUCCEEDED
    assert await link(3) == 4
    assert await link(3) == 4


async def test_a_key_is_live_until_it_is_revoked_expired_or_its_tenant_disabled(
    store: Store,
) -> None:
    registry, secret = store.registry, hashlib.sha256(b"secret").digest()
    await registry.add_key(store.tenant_id, "a", secret, ["submit", "read"], None)
    await registry.add_key(store.tenant_id, "b", secret, ["operate"], timedelta(0))
    found = await registry.key("a")
    assert found is not None
    credential, stored = found
    assert stored == secret
    assert (credential.tenant_id, credential.tenant_slug) == (store.tenant_id, "acme")
    assert credential.scopes == {"submit", "read"}
    assert await registry.key("b") is None
    assert await registry.key("unknown") is None
    await registry.set_disabled(store.tenant_id, True)
    assert await registry.key("a") is None
    await registry.set_disabled(store.tenant_id, False)
    assert await registry.key("a") is not None
    assert await registry.revoke_key("a")
    assert await registry.revoke_key("a")
    assert not await registry.revoke_key("unknown")
    assert await registry.key("a") is None


async def test_a_rotated_key_opens_for_the_overlap_beside_the_one_that_follows_it(
    store: Store,
) -> None:
    registry, old, new = store.registry, b"o" * 32, b"n" * 32
    await registry.add_key(store.tenant_id, "old", old, ["submit", "read"], None)
    hour = timedelta(hours=1)
    ends_at = await registry.rotate_key("old", "new", new, None, overlap=hour)
    assert ends_at is not None
    assert [await registry.key(key_id) for key_id in ("old", "new")] == [
        (credential(store, "old"), old),
        (credential(store, "new"), new),
    ]
    again = await registry.rotate_key("old", "new", new, None, overlap=2 * hour)
    assert again == ends_at
    assert await registry.rotate_key("old", "third", new, None, overlap=timedelta(0))
    assert await registry.key("old") is None
    assert await registry.rotate_key("old", "fourth", new, None, overlap=hour) is None
    assert await registry.key("fourth") is None
    assert await registry.rotate_key("none", "fifth", new, None, overlap=hour) is None


async def test_last_use_of_a_key_is_kept_to_the_hour(store: Store) -> None:
    await store.registry.add_key(store.tenant_id, "k-1", bytes(32), ["read"], None)
    (unused,) = await store.registry.keys()
    assert unused.last_used_at is None
    await store.registry.note_key_use("k-1")
    (used,) = await store.registry.keys()
    assert used.last_used_at is not None
    assert used.last_used_at >= used.created_at
    await store.registry.note_key_use("k-1")
    assert await store.registry.keys() == [used]
    await store.registry.note_key_use("nobody's")


async def test_tenant_moves_to_another_hmac_key(store: Store) -> None:
    await store.registry.set_hmac_key(store.tenant_id, "h2")
    (moved,) = await store.registry.tenants()
    assert moved.hmac_key_id == "h2"
    with pytest.raises(NotFound):
        await store.registry.set_hmac_key(uuid4(), "h2")


async def test_keys_are_listed_with_what_became_of_them(store: Store) -> None:
    registry, secret = store.registry, bytes(32)
    other, _ = await registry.create_tenant("zoo", "Zoo", "h1")
    await registry.add_key(store.tenant_id, "a", secret, ["submit"], None)
    await registry.add_key(store.tenant_id, "b", secret, ["read"], timedelta(0))
    await registry.add_key(store.tenant_id, "e", secret, ["read"], None)
    await registry.add_key(other.tenant_id, "c", secret, ["operate"], None)
    await registry.add_key(other.tenant_id, "d", secret, ["operate"], None)
    await registry.revoke_key("a")
    await registry.set_disabled(store.tenant_id, True)
    listed = await registry.keys()
    assert [(it.tenant_slug, it.key_id, it.state) for it in listed] == [
        ("acme", "a", "revoked"),
        ("acme", "b", "expired"),
        ("acme", "e", "tenant_disabled"),
        ("zoo", "c", "live"),
        ("zoo", "d", "live"),
    ]
    assert listed[0].revoked_at is not None
    assert listed[1].expires_at is not None
    assert await registry.keys(other.tenant_id) == listed[3:]


def credential(store: Store, key_id: str) -> Credential:
    scopes = frozenset({"submit", "read"})
    return Credential(key_id, store.tenant_id, "acme", scopes)


async def test_a_sealed_reason_is_bytes_of_any_kind(store: Store) -> None:
    seen = await _unknown(store)
    odd = replace(DECISION, sealed=bytes(range(256)), decision_id='a"b\\,(c)')
    await store.ledger.resolve(resolved(seen), odd)
    stored = await store.ledger.resolution(
        store.tenant_id, seen.work.effect_id, odd.decision_id
    )
    assert stored is not None
    assert stored[0] == odd


async def test_a_retryable_effect_refused_by_the_sweep_ends_by_its_version(
    store: Store,
) -> None:
    claim = await store.dispatching()
    await store.ledger.record([retryable(claim)])
    seen = await store.unheld(claim.work.effect_id)
    forbidden = step(
        seen,
        E.SEND_FORBIDDEN,
        S.FAILED_FINAL,
        actor="sweep",
        receipt=ReceiptDraft(
            kind=ReceiptKind.FAILED_FINAL,
            source=ReceiptSource.LEDGER,
            reason="submit_deadline",
        ),
    )
    (result,) = await store.ledger.record([forbidden])
    assert result.status is StepStatus.APPLIED
