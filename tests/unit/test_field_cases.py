from __future__ import annotations

from tests.field_cases import TESTS, field_cases, names_in


def test_every_case_names_tests_that_exist() -> None:
    gone = []
    for case in field_cases():
        assert case.tests, case.id
        for proof in case.tests:
            path, _, name = proof.partition("::")
            if not (TESTS / path).is_file() or name not in names_in(path):
                gone.append(f"{case.id} {proof}")
    assert gone == []
