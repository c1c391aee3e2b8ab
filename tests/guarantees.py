"""What the broker promises, as data that the documents render and the tests prove.

A promise stands here only once a test carries its id: `tests/unit/test_guarantees.py`
fails otherwise.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

TESTS = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Guarantee:
    """One promise: a stable id, a sentence to be held to, and the rule it rests on."""

    id: str
    sentence: str
    rule: int | str


GUARANTEES: Final[Sequence[Guarantee]] = (
    Guarantee(
        "one-intent-per-key",
        "One operation key of a tenant is one intent, for ever: however many submit it "
        "at once, exactly one is created.",
        1,
    ),
    Guarantee(
        "replay-answers-the-same",
        "The same key and arguments return the existing effect, whatever has been "
        "deployed since, and write nothing.",
        1,
    ),
    Guarantee(
        "drift-is-refused",
        "The same key with other arguments is refused, names the effect that holds it, "
        "and stores and sends nothing.",
        1,
    ),
    Guarantee(
        "confirmed-before-sent",
        "Nothing is sent under a claim whose commit is not confirmed; an unknown commit "
        "is settled by a write that finds it or makes it fail.",
        2,
    ),
    Guarantee(
        "acknowledged-is-kept",
        "What the ledger acknowledged is there after its database was killed, and what "
        "was open goes on.",
        2,
    ),
    Guarantee(
        "same-downstream-key",
        "Every attempt of an effect carries the downstream key stored at reservation.",
        3,
    ),
    Guarantee(
        "new-key-only-after-proof",
        "A new key generation follows only recorded proof that no attempt under the old "
        "one committed, and never ambiguity.",
        3,
    ),
    Guarantee(
        "key-rotation-keeps-keys",
        "Rotating a tenant's key changes no downstream key already stored.",
        3,
    ),
    Guarantee(
        "lost-answer-is-unknown",
        "A timeout, reset, disconnect, cancellation or unreadable answer ends in "
        "outcome_unknown, never in a failure.",
        4,
    ),
    Guarantee(
        "expired-lease-is-unknown",
        "An expired lease makes the effect outcome_unknown, never retryable.",
        4,
    ),
    Guarantee(
        "unclassified-error-is-unknown",
        "An error that the adapter's table does not name is ambiguity.",
        4,
    ),
    Guarantee(
        "unproved-attempt-blocks-failure",
        "While an earlier attempt is unproved, a later rejection or not-sent leads back "
        "to outcome_unknown.",
        5,
    ),
    Guarantee(
        "transactional-exactly-one",
        "A transactional effect commits its mutation, its receipt and its event "
        "together: exactly one for each key, or nothing.",
        "transactional",
    ),
    Guarantee(
        "idempotent-inside-horizon",
        "An idempotent effect is sent again only with the same key and only inside that "
        "key's horizon.",
        "idempotent",
    ),
    Guarantee(
        "reconcilable-probes-first",
        "A reconcilable effect whose answer was lost is sent again only after a "
        "conclusive lookup.",
        "reconcilable",
    ),
    Guarantee(
        "unsafe-at-most-once",
        "An unsafe effect is sent at most once unless an operator proves that nothing "
        "was executed.",
        6,
    ),
    Guarantee(
        "operator-evidence-is-dated",
        "An operator's negative evidence counts only from after the last possible write "
        "and the settlement bound.",
        6,
    ),
    Guarantee(
        "negative-waits-for-settlement",
        "A negative probe counts only if it was asked after the settlement bound had "
        "passed for every attempt.",
        7,
    ),
    Guarantee(
        "weak-lookup-proves-nothing",
        "A negative from a lookup not declared strongly consistent proves nothing.",
        7,
    ),
    Guarantee(
        "send-deadline-holds",
        "No attempt writes after its send deadline, whatever clock of the host stood "
        "still.",
        7,
    ),
    Guarantee(
        "horizon-forbids-send",
        "A claim whose deadline, settlement and margin do not fit into the key's "
        "horizon is forbidden to send.",
        8,
    ),
    Guarantee(
        "every-transition-is-a-swap",
        "Every transition is one compare-and-swap with its event in the same commit; "
        "the loser stops.",
        9,
    ),
    Guarantee(
        "fenced-answer-is-evidence",
        "A fenced worker changes no state, and its late answer is kept as evidence of "
        "its own attempt.",
        10,
    ),
    Guarantee(
        "proof-of-commit-blocks",
        "Proof of commit in the ledger blocks every further attempt and every contrary "
        "ending, in the database.",
        10,
    ),
    Guarantee(
        "unknowns-are-listed",
        "Every effect with an unproved attempt whose time is over is listed as unknown, "
        "whatever its status.",
        5,
    ),
    Guarantee(
        "contradiction-is-recorded",
        "Evidence against a terminal effect is recorded and alarmed, and its state "
        "stays.",
        10,
    ),
    Guarantee(
        "history-is-immutable",
        "No row of history can be changed or deleted, by the application or by its "
        "owner; corrections are new rows.",
        11,
    ),
    Guarantee(
        "tenant-from-credential",
        "The tenant comes from the credential; what another tenant owns is not found.",
        13,
    ),
    Guarantee(
        "nothing-in-the-clear",
        "No argument, result or secret stands in a log line, a metric or a refusal.",
        14,
    ),
    Guarantee(
        "no-ledger-no-dispatch",
        "While the ledger is away every surface says so, stores nothing and sends "
        "nothing; a repeat with the same key is safe.",
        15,
    ),
    Guarantee(
        "nothing-outlives-its-invocation",
        "What a Lambda handler leaves running is ended before it returns.",
        16,
    ),
    Guarantee(
        "clock-step-stops-dispatch",
        "A large step of the database clock stops dispatch and says so.",
        17,
    ),
    Guarantee(
        "replay-cannot-send",
        "Replaying an effect reads stored events and cannot reach an adapter.",
        12,
    ),
)


def guarantee(*ids: str) -> pytest.MarkDecorator:
    """Mark a test as the proof of these promises, which must be string literals."""
    return pytest.mark.guarantee(*ids)


class UnreadableGuaranteeError(ValueError):
    """A test names its promises by something other than string literals."""


def proofs(tests: Path = TESTS) -> Mapping[str, Sequence[str]]:
    """Return for each promise named under `tests` its tests, as `path::name`.

    Read from the source: what was selected, skipped or run does not matter.
    """
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(tests.rglob("test_*.py")):
        for name, promise in _named_promises(path.read_text(), path.name):
            found[promise].append(f"{path.relative_to(tests).as_posix()}::{name}")
    return found


def _named_promises(source: str, filename: str) -> Iterator[tuple[str, str]]:
    for node in ast.walk(ast.parse(source, filename)):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        if node.name.startswith(("test_", "Test")):
            for decorator in node.decorator_list:
                for promise in _literal_ids(decorator, filename):
                    yield node.name, promise


def _literal_ids(decorator: ast.expr, filename: str) -> Iterator[str]:
    """Yield the ids of every `guarantee(...)` in one decorator, nested ones too."""
    for call in ast.walk(decorator):
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name)):
            continue
        if call.func.id != "guarantee":
            continue
        for argument in call.args:
            match argument:
                case ast.Constant(value=str() as promise):
                    yield promise
                case _:
                    raise UnreadableGuaranteeError(f"{filename}:{call.lineno}")
