"""The harness that the documents show is one that works."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from effect_broker.conformance import CHECKS, Check
from tests.conformance.booked_target import BookedTarget
from tests.conformance.targets import BookedHttp

DOCUMENT = Path(__file__).parents[2] / "docs" / "adapters.md"
BLOCK = re.compile(r"^```python\n(import pytest\n.*?)^```$", re.DOTALL | re.MULTILINE)


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Run the document's harness with the booked target as the reader's own."""
    (source,) = BLOCK.findall(DOCUMENT.read_text())
    own = ModuleType("my_target")
    own.Target = BookedTarget  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "my_target", own)
    names: dict[str, Any] = {}
    exec(source, names)
    return names


@pytest.mark.parametrize("check", CHECKS, ids=str)
async def test_harness_of_the_document_passes(
    shown: dict[str, Any], check: Check
) -> None:
    target = shown["LedgerlyUnderTest"]()
    if reason := check.why_not(target):
        pytest.skip(reason)
    await shown["test_ledgerly_conforms"](check)


async def test_check_that_does_not_apply_is_not_run() -> None:
    unsafe = BookedHttp("unsafe")
    drift = next(c for c in CHECKS if c.name == "drift_is_refused_by_the_target")
    assert drift.why_not(unsafe) == "the target is not said to deduplicate by key"
    with pytest.raises(ValueError, match="does not apply"):
        await drift.run(unsafe)


def test_mutation_of_the_ledgers_own_database_is_not_for_the_kit() -> None:
    class Local(BookedHttp):
        def contract_at(self, base_url: str) -> Any:
            from tests.integration.adapters.sql_world import sql_contract

            return sql_contract()

    assert {check.why_not(Local()) for check in CHECKS} == {
        "a mutation of the ledger's own database has no wire"
    }
