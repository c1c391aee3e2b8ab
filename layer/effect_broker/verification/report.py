"""The report of a verification: for a person as rows, for a program as JSON, and the
memory that a later run resumes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from effect_broker.domain.contract import EffectContract, SafetyClass
from effect_broker.domain.errors import InvalidRequest
from effect_broker.verification.judging import Row, claims_too_much
from effect_broker.verification.trying import Memory

FORMAT: Final = 1


@dataclass(frozen=True, slots=True)
class Report:
    """What one contract's sandbox proved; `keys` lets a later run look how long they are
    kept.
    """

    contract: EffectContract
    rows: Sequence[Row]
    proposed: SafetyClass
    keys: Sequence[Memory]

    @property
    def claims_too_much(self) -> bool:
        """Whether the contract promises more than was seen."""
        return claims_too_much(self.rows)

    def document(self) -> dict[str, Any]:
        """Return the report as JSON; it holds throw-away keys and no secret."""
        contract = self.contract
        return {
            "format": FORMAT,
            "tool": contract.tool,
            "name": contract.name,
            "version": contract.version,
            "claimed_safety": str(contract.safety),
            "proposed_safety": str(self.proposed),
            "claims_too_much": self.claims_too_much,
            "rows": [asdict(row) for row in self.rows],
            "keys": [asdict(key) for key in self.keys],
        }


def earlier_keys(text: str) -> Mapping[tuple[str, str], tuple[Memory, ...]]:
    """Read the keys of earlier reports, one a line, by contract name and version.

    Raises:
        InvalidRequest: the text is no such report.
    """
    found: dict[tuple[str, str], tuple[Memory, ...]] = {}
    try:
        for line in filter(None, map(str.strip, text.splitlines())):
            document = json.loads(line)
            if document["format"] != FORMAT:
                raise InvalidRequest(f"The report's format is {document['format']}.")
            keys = tuple(Memory(**key) for key in document["keys"])
            found[(document["name"], document["version"])] = keys
    except (KeyError, TypeError, ValueError):
        raise InvalidRequest("This is no report of an earlier verification.") from None
    return found
