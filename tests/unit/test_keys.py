from __future__ import annotations

from collections.abc import Callable

import pytest

from effect_broker import keys
from effect_broker.domain.errors import InvalidOperationKey
from effect_broker.domain.identity import check_operation_key
from effect_broker.keys import Weakness, weakness

ARN = "arn:aws:states:eu-central-1:123456789012:execution:Billing:ord-1"
CALL_IDS = [
    "c0",
    "call_1",
    "call-2",
    "call_abc123",
    "call_9pw1qnYScqvGrCH58HWCvFH6",
    "toolu_01A09q90qw90lq917835lq9",
    "toolu_bdrk_01A09q90qw90lq91",
    "fc_67890abcdef1234",
    "chatcmpl-AbC123xyz",
    "resp_67ccd2bed1ec8190",
]
ATTEMPTS = [
    "attempt-2",
    "refund:attempt:3",
    "retry_1",
    "charge retry 12",
    "try#4",
    "Attempt1",
]

HELPERS: dict[str, Callable[[str, str], str]] = {
    "step": lambda run, step: keys.step_key("my-runtime", run, step),
    "temporal": keys.temporal,
    "step_functions": lambda run, step: keys.step_functions(
        f"arn:aws:states:eu-central-1:123456789012:execution:Billing:{run}", step
    ),
    "langgraph": lambda run, step: keys.langgraph(run, "node", tool=step),
    "openai_agents": lambda run, step: keys.openai_agents(run, 3, tool=step),
    "durable_function": keys.durable_function,
}
every_helper = pytest.mark.parametrize("helper", HELPERS.values(), ids=HELPERS.keys())


@every_helper
def test_same_step_gives_the_same_good_key(helper: Callable[[str, str], str]) -> None:
    key = helper("order-7", "charge")
    assert key == helper("order-7", "charge")
    assert check_operation_key(key) == key


@every_helper
def test_other_run_or_step_gives_another_key(helper: Callable[[str, str], str]) -> None:
    named = {helper(run, step) for run in ("a", "b", "a-b") for step in ("c", "b-c", "d")}
    assert len(named) == 9


@every_helper
@pytest.mark.parametrize("volatile", CALL_IDS + ATTEMPTS)
def test_step_that_changes_from_run_to_run_is_refused(
    helper: Callable[[str, str], str], volatile: str
) -> None:
    with pytest.raises(InvalidOperationKey):
        helper("order-7", volatile)


@every_helper
def test_random_id_is_no_step(helper: Callable[[str, str], str]) -> None:
    with pytest.raises(InvalidOperationKey, match="random"):
        helper("order-7", "0b5c7a1e-6f1b-4c53-9f0e-0f6f3c1d2a3b")


@pytest.mark.parametrize("volatile", CALL_IDS + ATTEMPTS)
def test_run_identity_is_no_call_id_and_no_attempt(volatile: str) -> None:
    with pytest.raises(InvalidOperationKey):
        keys.temporal(volatile, "charge")
    with pytest.raises(InvalidOperationKey):
        keys.temporal("order-7", "charge", occurrence=volatile)


@pytest.mark.parametrize(
    "step",
    ["charge", "call_customer", "retry-payment-plan", "entry-2", "country-3", "v2"],
)
def test_names_that_only_look_like_it_are_accepted(step: str) -> None:
    assert keys.temporal("order-7", step)


def test_thread_may_be_a_uuid() -> None:
    thread = "0b5c7a1e-6f1b-4c53-9f0e-0f6f3c1d2a3b"
    assert keys.langgraph(thread, "pay", tool="charge").startswith("langgraph:0b5c7a1e")


def test_two_turns_with_one_call_id_are_two_effects() -> None:
    first = keys.openai_agents("session-1", 1, tool="refund")
    second = keys.openai_agents("session-1", 2, tool="refund")
    assert first != second


def test_two_equal_refunds_in_one_turn_are_two_effects() -> None:
    refunds = {
        keys.openai_agents("session-1", 1, tool="refund", occurrence=n) for n in (0, 1)
    }
    assert len(refunds) == 2


def test_parts_never_run_into_each_other() -> None:
    made = {
        keys.operation_key("a", "b:c"),
        keys.operation_key("a:b", "c"),
        keys.operation_key("a", "b", "c"),
        keys.operation_key("a%3Ab", "c"),
        keys.temporal("b/c", "s", namespace="a"),
        keys.temporal("c", "s", namespace="a/b"),
        keys.langgraph("t", "n/x", tool="y"),
        keys.langgraph("t", "n", tool="x/y"),
    }
    assert len(made) == 8


def test_plain_parts_stay_readable() -> None:
    assert keys.operation_key("order", "ord_123", "charge", "v1") == (
        "order:ord_123:charge:v1"
    )
    assert keys.operation_key("order", 7, "caf\u00e9") == "order:7:caf%C3%A9"


@pytest.mark.parametrize(
    "parts", [(), ("",), ("a", ""), ("a", None), ("a", True), ("a", 1.5), ("a", "None")]
)
def test_missing_part_is_refused(parts: tuple[str, ...]) -> None:
    with pytest.raises(InvalidOperationKey):
        keys.operation_key(*parts)


def test_key_is_refused_rather_than_cut() -> None:
    assert len(keys.operation_key("a" * 127, "b" * 127)) == 255
    with pytest.raises(InvalidOperationKey):
        keys.operation_key("a" * 127, "b" * 128)


def test_state_machine_execution_is_named_without_account_and_region() -> None:
    assert keys.step_functions(ARN, "Charge", occurrence="item-4") == (
        "sfn:Billing:ord-1:Charge:item-4"
    )


@pytest.mark.parametrize(
    "execution",
    [
        "ord-1",
        ARN.replace(":execution:", ":stateMachine:"),
        "arn:aws:states:eu-central-1:123456789012:express:Billing:ord-1:0b5c7a1e",
    ],
)
def test_execution_that_does_not_last_is_refused(execution: str) -> None:
    with pytest.raises(InvalidOperationKey):
        keys.step_functions(execution, "Charge")


def test_unnamed_durable_execution_is_refused() -> None:
    with pytest.raises(InvalidOperationKey):
        keys.durable_function("0b5c7a1e-6f1b-4c53-9f0e-0f6f3c1d2a3b", "charge")


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("order:ord_123:charge:v1", None),
        ("agent-run:run_789:step:refund_03", None),
        ("order-ord123-charge", None),
        ("order:0198c0de-0000-7000-8000-000000000001:charge", None),
        ("order42", Weakness.NO_STEP),
        ("ord_123", Weakness.NO_STEP),
        ("order:42:charge:attempt-2", Weakness.ATTEMPT),
        ("order:42:retry3", Weakness.ATTEMPT),
        ("0198c0de-0000-7000-8000-000000000001", Weakness.CALL_ID),
        ("run:7:call_9Xk2LmNpQ", Weakness.CALL_ID),
        ("run:7:c0", Weakness.CALL_ID),
    ],
)
def test_weak_keys_are_known_by_what_would_change_or_be_swallowed(
    key: str, expected: Weakness | None
) -> None:
    """C36: a key without a part for the step stands for too much."""
    assert weakness(key) is expected


def test_keys_of_the_helpers_have_no_weakness() -> None:
    for key in (
        keys.temporal("order-42", "charge"),
        keys.langgraph("thread-1", "pay", tool="charge", occurrence=2),
        keys.openai_agents("session-1", 3, tool="refund"),
        keys.durable_function("order-42", "charge"),
    ):
        assert keys.weakness(key) is None
