"""Contracts tried out against the demo target in its modes, also where they lie."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

import pytest

from effect_broker.domain.contract import EffectContract, SafetyClass
from effect_broker.domain.errors import ContractInvalid
from effect_broker.settings import Settings
from effect_broker.surfaces.verifying import verify
from effect_broker.verification.judging import Verdict
from effect_broker.verification.report import Report, earlier_keys
from effect_broker.verification.trying import Memory
from examples.crash_matrix.target.client import RunningTarget, run_target
from tests.integration.verification.given import contract

V = Verdict


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningTarget]:
    with run_target(tmp_path_factory.mktemp("target") / "charges.db") as target:
        yield target


@pytest.fixture
def target(running: RunningTarget) -> RunningTarget:
    running.reset()
    return running


async def verified(
    tried: EffectContract,
    earlier: Mapping[tuple[str, str], tuple[Memory, ...]] | None = None,
) -> Report:
    said: list[str] = []
    settings = Settings.from_environment({}, ledger=False)
    report = await verify(tried, settings, tell=said.append, earlier=earlier or {})
    assert said[0]
    return report


def verdicts(report: Report) -> dict[str, Verdict]:
    return {row.about: row.verdict for row in report.rows}


async def test_honest_keyed_contract_holds(target: RunningTarget) -> None:
    report = await verified(contract(target.url, "keyed", "idempotent"))
    assert not report.claims_too_much
    assert report.proposed is SafetyClass.IDEMPOTENT
    assert verdicts(report) == {
        "the same key again": V.HOLDS,
        "the same key twice at once": V.HOLDS,
        "the same key with other arguments": V.HOLDS,
        "a refusal under a key": V.HOLDS,
        "how long keys are kept": V.NOT_SEEN,
        "an error that hides a commit": V.NOT_SEEN,
    }


@pytest.mark.parametrize(
    ("mode", "claimed", "verdict"),
    [
        ("all_answers", "all_answers", V.HOLDS),
        ("commits", "all_answers", V.CLAIMS_TOO_MUCH),
        ("successes", "all_answers", V.CLAIMS_TOO_MUCH),
        ("commits", "commits", V.HOLDS),
        ("all_answers", "successes", V.CLAIMS_LESS),
    ],
)
async def test_what_stays_under_a_refused_key_is_told(
    target: RunningTarget, mode: str, claimed: str, verdict: Verdict
) -> None:
    target.settings(key_records=mode)
    tried = contract(target.url, "keyed", "idempotent", key_records=claimed)
    report = await verified(tried)
    assert verdicts(report)["a refusal under a key"] is verdict
    assert report.claims_too_much is (verdict is V.CLAIMS_TOO_MUCH)


@pytest.mark.parametrize("world", ["plain", "lookup"])
async def test_target_that_ignores_keys_is_not_idempotent_whatever_is_claimed(
    target: RunningTarget, world: str
) -> None:
    report = await verified(contract(target.url, world, "idempotent"))
    found = verdicts(report)
    assert report.claims_too_much
    assert found["the same key again"] is V.CLAIMS_TOO_MUCH
    assert found["the same key twice at once"] is V.CLAIMS_TOO_MUCH
    assert found["the same key with other arguments"] is V.CLAIMS_TOO_MUCH
    assert report.proposed is SafetyClass.UNSAFE
    assert len(target.charges()) >= 2


async def test_conflict_that_the_contract_takes_for_a_rejection_is_told(
    target: RunningTarget,
) -> None:
    tried = contract(target.url, "keyed", "idempotent")
    assert tried.http is not None
    meaning = {"code": "/error/code", "2xx": "committed", "4xx": "rejected"}
    http = tried.http.model_dump(exclude_unset=True) | {"meaning": meaning}
    lying = contract(target.url, "keyed", "idempotent", http=http)
    report = await verified(lying)
    assert verdicts(report)["the same key with other arguments"] is V.CLAIMS_TOO_MUCH


async def test_keys_are_looked_at_again_later(target: RunningTarget) -> None:
    honest = contract(target.url, "keyed", "idempotent")
    first = await verified(honest)
    assert len(first.keys) == 1
    earlier = earlier_keys(_line(first))
    again = await verified(honest, earlier)
    assert verdicts(again)["how long keys are kept"] is V.HOLDS
    assert len(again.keys) == 2
    target.settings(retention_seconds=0.0)
    forgotten = await verified(honest, earlier_keys(_line(first)))
    assert verdicts(forgotten)["how long keys are kept"] is V.CLAIMS_TOO_MUCH
    assert forgotten.claims_too_much
    assert forgotten.proposed is SafetyClass.UNSAFE


async def test_truthful_lookup_holds_and_says_how_soon(target: RunningTarget) -> None:
    report = await verified(contract(target.url, "lookup", "reconcilable"))
    assert not report.claims_too_much
    assert report.proposed is SafetyClass.RECONCILABLE
    (fresh,) = [row for row in report.rows if row.about == "a lookup of a fresh object"]
    assert fresh.verdict is V.HOLDS
    assert fresh.seen.startswith("found it after 0.")


@pytest.mark.parametrize(
    ("consistency", "verdict"),
    [("strong", V.CLAIMS_TOO_MUCH), ("eventual", V.NOT_SEEN)],
)
async def test_lookup_that_lags_beyond_settlement_is_told(
    target: RunningTarget, consistency: str, verdict: Verdict
) -> None:
    target.settings(settlement_lag_seconds=60.0)
    tried = contract(target.url, "lookup", "reconcilable", settlement_bound="100ms")
    assert tried.probe is not None
    probe = tried.probe.model_dump(exclude_unset=True) | {"consistency": consistency}
    lagging = contract(
        target.url,
        "lookup",
        "reconcilable",
        settlement_bound="100ms",
        probe=probe,
    )
    report = await verified(lagging)
    assert verdicts(report)["a lookup of a fresh object"] is verdict
    assert report.proposed is SafetyClass.UNSAFE


async def test_unsafe_contract_claims_what_is_so(target: RunningTarget) -> None:
    report = await verified(contract(target.url, "plain", "unsafe"))
    assert verdicts(report)["the safety class"] is V.HOLDS
    assert not report.claims_too_much
    assert len(target.charges()) == 1


async def test_production_target_is_never_reached(target: RunningTarget) -> None:
    tried = contract(target.url, "keyed", "idempotent")
    assert tried.http is not None
    assert tried.http.base_url == "https://production.invalid"
    await verified(tried)
    assert {request.world for request in target.requests()} == {"keyed"}


async def test_contract_without_a_sandbox_is_refused(target: RunningTarget) -> None:
    with pytest.raises(ContractInvalid, match="sandbox"):
        await verified(contract(target.url, "keyed", "idempotent", sandbox=None))


async def test_sandbox_that_refuses_its_arguments_is_told(target: RunningTarget) -> None:
    sandbox = {"base_url": target.url, "arguments": {"amount": 402, "order": "x"}}
    with pytest.raises(ContractInvalid, match="did not carry out"):
        await verified(contract(target.url, "keyed", "idempotent", sandbox=sandbox))


def _line(report: Report) -> str:
    return json.dumps(report.document())
