"""What the demo is made of that needs no stack."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from examples.crash_matrix.demo import BROKEN, KEPT, run_of, verdict
from examples.crash_matrix.stack import read_environment
from examples.crash_matrix.telling import Promises, Teller
from localstack.environment import render


@pytest.fixture
def promises() -> Promises:
    return Promises(Teller(Console(file=io.StringIO())))


def test_a_broken_promise_is_named_and_makes_the_demo_fail(
    promises: Promises, capsys: pytest.CaptureFixture[str]
) -> None:
    promises.check("A", "one charge at the target", True)
    promises.check("A", "one receipt", False)
    assert verdict(promises) == BROKEN
    assert capsys.readouterr().err == "demo: promise broken: A: one receipt\n"


def test_promises_that_all_held_are_no_failure(promises: Promises) -> None:
    promises.check("A", "one receipt", True)
    assert verdict(promises) == KEPT


def test_a_scenario_that_nobody_looked_at_has_not_held(promises: Promises) -> None:
    promises.check("A", "one receipt", True)
    promises.check("B", "one receipt", True)
    promises.check("B", "one charge at the target", False)
    assert [promises.held(letter) for letter in "ABC"] == [True, False, False]


def test_the_environment_is_read_as_a_shell_reads_it() -> None:
    values = {"URL": "http://127.0.0.1:1/$default", "ODD": 'it\'s a=b "c"', "NONE": ""}
    assert read_environment(render(values)) == values


@pytest.mark.parametrize(
    ("order", "run"),
    [
        ("order-42", 1),
        ("order-44-17", 17),
        ("order-420", None),
        ("order-42-x", None),
        ("e2e-0", None),
    ],
)
def test_a_run_is_counted_by_the_demos_own_orders(order: str, run: int | None) -> None:
    assert run_of(order) == run
