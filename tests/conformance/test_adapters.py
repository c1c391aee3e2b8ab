"""Every shipped adapter passes the kit, in every class that it can serve."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from effect_broker.conformance import CHECKS, Check, TargetUnderTest
from tests.conformance.stripe_target import StripeTarget
from tests.conformance.targets import BookedHttp, Simulated

STRONG = {"consistency": "strong"}
EVENTUAL = {"consistency": "eventual"}
HONEST = "tests.conformance.cheats.honest:HonestAdapter"

TARGETS: Mapping[str, Callable[[], TargetUnderTest]] = {
    "http-idempotent-all-answers": lambda: BookedHttp(key_records="all_answers"),
    "http-idempotent-commits": lambda: BookedHttp(key_records="commits"),
    "http-idempotent-probed": lambda: BookedHttp(key_records="successes", probe=STRONG),
    "http-idempotent-unprobed": lambda: BookedHttp(key_records="successes"),
    "http-idempotent-quoted": lambda: BookedHttp(
        key_records="all_answers", key_quoted=True
    ),
    "http-reconcilable": lambda: BookedHttp("reconcilable", probe=STRONG),
    "http-reconcilable-eventual": lambda: BookedHttp("reconcilable", probe=EVENTUAL),
    "http-reconcilable-key-in-body": lambda: BookedHttp(
        "reconcilable",
        probe=STRONG,
        http={"key_header": None, "key_body": "/reference"},
    ),
    "http-unsafe": lambda: BookedHttp("unsafe"),
    "own-class": lambda: BookedHttp(
        key_records="all_answers", adapter=HONEST, probe=STRONG
    ),
    "own-class-reconcilable": lambda: BookedHttp(
        "reconcilable", adapter=HONEST, probe=STRONG
    ),
    "stripe": StripeTarget,
    "simulated-idempotent": lambda: Simulated(key_records="all_answers"),
    "simulated-reconcilable": lambda: Simulated("reconcilable", probe=STRONG),
    "simulated-unsafe": lambda: Simulated("unsafe"),
}


@pytest.mark.parametrize("check", CHECKS, ids=str)
@pytest.mark.parametrize("name", TARGETS)
async def test_adapter_keeps_the_promise(name: str, check: Check) -> None:
    target = TARGETS[name]()
    if reason := check.why_not(target):
        pytest.skip(reason)
    await check.run(target)


@pytest.mark.parametrize("check", CHECKS, ids=str)
def test_every_promise_applies_to_some_adapter(check: Check) -> None:
    assert any(check.why_not(make()) is None for make in TARGETS.values())
