"""Answers that no ledger can keep as they are: they cost neither their own receipt nor
the endings of the attempts beside them.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from effect_broker.domain.contract import EffectContract
from effect_broker.domain.intent import EffectRecord
from effect_broker.domain.outcome import (
    Ambiguous,
    Committed,
    NotSent,
    ProbeResult,
    ProbeStatus,
    Rejected,
)
from effect_broker.domain.status import EffectStatus
from effect_broker.ports import AdapterSource, Deadline, TargetAdapter
from tests.guarantees import guarantee
from tests.integration.broker.world import World, contract

_S = EffectStatus
ODD = "order:odd:charge:v1"


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = {"in": value}
    return value


COMMITS = {
    "id with a NUL": Committed("ch\x001"),
    "id with half a character": Committed("ch\ud800"),
    "id too long": Committed("c" * 5000),
    "id no text": Committed(17),  # type: ignore[arg-type]
    "output with half a character": Committed("ch_1", output={"name": "\ud800"}),
    "output no JSON": Committed("ch_1", output={"made": datetime(2026, 1, 1)}),  # noqa: DTZ001
    "output deeper than readers bear": Committed("ch_1", output=nested(201)),
    "flags no text": Committed("ch_1", flags=("a\x00b", "c" * 5000)),
    "evidence no JSON": Committed("ch_1", evidence={"at": object()}),
    "evidence with a NUL": Committed("ch_1", evidence={"at": "\x00"}),
    "evidence too long": Committed("ch_1", evidence={"at": "x" * 100_000}),
    "target's time without a zone": Committed("ch_1", target_time=datetime(2026, 1, 1)),  # noqa: DTZ001
}
OTHERS: dict[str, tuple[Any, EffectStatus]] = {
    "reason with a NUL": (Ambiguous("\x00"), _S.OUTCOME_UNKNOWN),
    "reason too long": (Ambiguous("r" * 9000), _S.OUTCOME_UNKNOWN),
    "reason with half a character": (NotSent("\udfff"), _S.RETRYABLE),
    "wait beyond the calendar": (
        Rejected("busy", not_executed=True, retry_after=timedelta(days=999_999_999)),
        _S.RETRYABLE,
    ),
    "wait into the past": (
        Rejected("busy", not_executed=True, retry_after=timedelta(days=-9)),
        _S.RETRYABLE,
    ),
    "no outcome": (None, _S.OUTCOME_UNKNOWN),
    "a status": ("succeeded", _S.OUTCOME_UNKNOWN),
}


class AnsweringAdapters:
    """Wraps a source: the odd effect's request is made, and answered as it was told."""

    def __init__(self, inner: AdapterSource, answer: Any, found: Any = None) -> None:
        self.inner = inner
        self.answer = answer
        self.found = found

    async def scope_digest(self, contract: EffectContract) -> bytes:
        return await self.inner.scope_digest(contract)

    async def adapter(
        self,
        contract: EffectContract,
        *,
        scope_digest: bytes,
        deadline: Deadline | None,
    ) -> TargetAdapter:
        inner = await self.inner.adapter(
            contract, scope_digest=scope_digest, deadline=deadline
        )
        return _Answering(inner, self)


class _Answering:
    def __init__(self, inner: TargetAdapter, told: AnsweringAdapters) -> None:
        self._inner = inner
        self._told = told

    @property
    def contract(self) -> EffectContract:
        return self._inner.contract

    async def dispatch(self, effect: EffectRecord, *, attempt_id: UUID) -> Any:
        outcome = await self._inner.dispatch(effect, attempt_id=attempt_id)
        return self._told.answer if effect.request.operation_key == ODD else outcome

    async def probe(self, effect: EffectRecord) -> Any:
        found = await self._inner.probe(effect)
        return self._told.found if effect.request.operation_key == ODD else found


async def _dispatched(world: World, answer: Any) -> UUID:
    """Send the odd effect in the middle of a batch whose others must all succeed."""
    await world.open(contract())
    keys = ["order:1:charge:v1", ODD, "order:2:charge:v1"]
    effects = [(await world.submit(key)).effect.effect_id for key in keys]
    answering = AnsweringAdapters(world.adapters, answer)
    await world.dispatcher(adapters=answering).run_once()
    assert await world.status(effects[0]) is _S.SUCCEEDED
    assert await world.status(effects[2]) is _S.SUCCEEDED
    return effects[1]


@guarantee("unclassified-error-is-unknown")
@pytest.mark.parametrize("answer", COMMITS.values(), ids=COMMITS.keys())
async def test_commit_with_an_answer_that_cannot_be_kept_is_a_commit(
    world: World, answer: Committed
) -> None:
    effect_id = await _dispatched(world, answer)
    assert await world.status(effect_id) is _S.SUCCEEDED
    assert (await world.receipt(effect_id))["external_id"] in ("ch_1", None)


async def test_receipt_says_what_of_the_answer_was_not_kept(world: World) -> None:
    effect_id = await _dispatched(world, Committed("ch\x001", output={"a": object()}))
    receipt = await world.receipt(effect_id)
    assert receipt["external_id"] is None
    assert set(receipt["flags"]) >= {"external_id_not_kept", "output_not_kept"}


@pytest.mark.parametrize(("answer", "status"), OTHERS.values(), ids=OTHERS.keys())
async def test_odd_answer_is_what_it_proves_and_no_more(
    world: World, answer: Any, status: EffectStatus
) -> None:
    effect_id = await _dispatched(world, answer)
    assert await world.status(effect_id) is status


@pytest.mark.parametrize("found", [None, "committed", object()])
async def test_probe_that_answers_nonsense_is_an_unknown_answer(
    world: World, found: Any
) -> None:
    await world.open(contract("reconcilable"))
    effect_id = (await world.submit(ODD)).effect.effect_id
    lost = AnsweringAdapters(world.adapters, Ambiguous("lost"), found)
    await world.dispatcher(adapters=lost).run_once()
    await world.let_pass(60)
    await world.reconciler(adapters=lost).run_once()
    assert await world.status(effect_id) is _S.OUTCOME_UNKNOWN


async def test_probe_that_finds_an_id_that_cannot_be_kept_proves_the_commit(
    world: World,
) -> None:
    await world.open(contract("reconcilable"))
    effect_id = (await world.submit(ODD)).effect.effect_id
    found = ProbeResult(ProbeStatus.COMMITTED, "ch\x001", {"name": "\ud800"})
    lost = AnsweringAdapters(world.adapters, Ambiguous("lost"), found)
    await world.dispatcher(adapters=lost).run_once()
    await world.let_pass(60)
    await world.reconciler(adapters=lost).run_once()
    assert await world.status(effect_id) is _S.SUCCEEDED
