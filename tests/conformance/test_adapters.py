"""Every shipped adapter passes the kit, in every class that it can serve."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from effect_broker.conformance import CHECKS, Check, TargetUnderTest
from tests.conformance.mcp_target import McpTarget
from tests.conformance.stripe_target import StripeTarget
from tests.conformance.targets import BookedHttp, Simulated
from tests.integration.adapters.mcp_calls import PROBE

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
    "mcp-idempotent": McpTarget,
    "mcp-idempotent-in-sessions": lambda: McpTarget(stateless=False),
    "mcp-idempotent-probed": lambda: McpTarget(key_records="successes", probe=PROBE),
    "mcp-reconcilable": lambda: McpTarget("reconcilable", probe=PROBE),
    "mcp-reconcilable-in-sessions": lambda: McpTarget(
        "reconcilable", stateless=False, probe=PROBE
    ),
    "mcp-unsafe": lambda: McpTarget("unsafe"),
    "simulated-idempotent": lambda: Simulated(key_records="all_answers"),
    "simulated-reconcilable": lambda: Simulated("reconcilable", probe=STRONG),
    "simulated-unsafe": lambda: Simulated("unsafe"),
}


@pytest.mark.parametrize(
    ("name", "check"),
    [
        pytest.param(name, check, id=f"{name}-{check}")
        for name, make in TARGETS.items()
        for check in CHECKS
        if check.why_not(make()) is None
    ],
)
async def test_adapter_keeps_the_promise(name: str, check: Check) -> None:
    await check.run(TARGETS[name]())


@pytest.mark.parametrize("check", CHECKS, ids=str)
def test_every_promise_applies_to_some_adapter(check: Check) -> None:
    assert any(check.why_not(make()) is None for make in TARGETS.values())
