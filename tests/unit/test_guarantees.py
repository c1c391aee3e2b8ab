from __future__ import annotations

from pathlib import Path

import pytest

from tests.guarantees import GUARANTEES, UnreadableGuaranteeError, proofs


def test_every_promise_has_a_test() -> None:
    assert [g.id for g in GUARANTEES if g.id not in proofs()] == []


def test_no_test_names_an_unknown_promise() -> None:
    known = {g.id for g in GUARANTEES}
    assert {id: tests for id, tests in proofs().items() if id not in known} == {}


def test_promise_ids_are_unique() -> None:
    ids = [g.id for g in GUARANTEES]
    assert sorted(set(ids)) == sorted(ids)


def test_proofs_are_found_in_functions_classes_and_parametrised_marks(
    tmp_path: Path,
) -> None:
    (tmp_path / "test_sample.py").write_text(
        """
@guarantee("plain")
def test_plain(): ...

@guarantee("first", "second")
async def test_asynchronous(): ...

@guarantee("whole-class")
class TestClass:
    @pytest.mark.parametrize("n", [pytest.param(1, marks=guarantee("one-case"))])
    def test_inside(self, n): ...

@guarantee("no-test")
def helper(): ...
"""
    )
    assert proofs(tmp_path) == {
        "plain": ["test_sample.py::test_plain"],
        "first": ["test_sample.py::test_asynchronous"],
        "second": ["test_sample.py::test_asynchronous"],
        "whole-class": ["test_sample.py::TestClass"],
        "one-case": ["test_sample.py::test_inside"],
    }


def test_promise_not_named_by_a_literal_is_refused(tmp_path: Path) -> None:
    (tmp_path / "test_sample.py").write_text("@guarantee(*IDS)\ndef test_it(): ...\n")
    with pytest.raises(UnreadableGuaranteeError, match=r"test_sample\.py:1"):
        proofs(tmp_path)
