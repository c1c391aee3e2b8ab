"""What was seen against what the contract claims, and the class that could be claimed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from effect_broker.domain.contract import EffectContract, KeyRecords, SafetyClass
from effect_broker.verification.seen import AfterRefusal, Kept, Repeat, Seen

_R = Repeat


class Verdict(StrEnum):
    """How a claim stands beside what was seen."""

    HOLDS = "holds"
    CLAIMS_TOO_MUCH = "claims_too_much"
    CLAIMS_LESS = "claims_less"
    NOT_SEEN = "not_seen"


@dataclass(frozen=True, slots=True)
class Row:
    """One claim: what it is about, what was seen, what the contract says, and how the
    two go together.
    """

    about: str
    seen: str
    claimed: str
    verdict: Verdict


DEDUPLICATED: Final = frozenset({_R.SAME_OBJECT})
_HELD_BACK: Final = frozenset({_R.SAME_OBJECT, _R.IN_PROGRESS, _R.REFUSED_AS_CONFLICT})

_TOLD: Final = {
    _R.SAME_OBJECT: "the first object again",
    _R.ANOTHER_OBJECT: "a second object",
    _R.IN_PROGRESS: "a word that the first request still runs",
    _R.REFUSED_AS_CONFLICT: "a refusal that the contract knows as a key conflict",
    _R.REFUSED: "a refusal that the contract does not know as a key conflict",
    _R.UNCLEAR: "nothing that proves anything",
}


def judge(contract: EffectContract, seen: Seen) -> Sequence[Row]:
    """Set every claim beside what was seen, also those that no trial can reach."""
    rows = [*_of_key(contract, seen), *_of_lookup(contract, seen)]
    if contract.safety is not SafetyClass.IDEMPOTENT:
        rows.append(_of_class(contract, seen))
    rows.append(
        Row(
            "an error that hides a commit",
            "cannot be provoked from outside",
            f"key_records = {contract.key_records}",
            Verdict.NOT_SEEN,
        )
    )
    return rows


def proposed_class(seen: Seen) -> SafetyClass:
    """Return the strongest class for which everything seen speaks; never a contract."""
    forgotten = any(it.repeat is _R.ANOTHER_OBJECT for it in seen.kept)
    if (
        seen.repeat in DEDUPLICATED
        and seen.at_once in (None, *_HELD_BACK)
        and seen.drift in (None, *_HELD_BACK, _R.REFUSED)
        and not forgotten
    ):
        return SafetyClass.IDEMPOTENT
    lookup = seen.lookup
    if lookup and lookup.seconds is not None and not (lookup.stranger or lookup.other_id):
        return SafetyClass.RECONCILABLE
    return SafetyClass.UNSAFE


def claims_too_much(rows: Sequence[Row]) -> bool:
    """Say whether the contract promises more than its target was seen to keep."""
    return any(row.verdict is Verdict.CLAIMS_TOO_MUCH for row in rows)


def _of_key(contract: EffectContract, seen: Seen) -> Iterator[Row]:
    if contract.safety is not SafetyClass.IDEMPOTENT:
        return
    yield Row(
        "the same key again",
        _told(seen.repeat),
        "one object for each key",
        _verdict(seen.repeat, DEDUPLICATED),
    )
    yield Row(
        "the same key twice at once",
        _told(seen.at_once),
        "one object for each key",
        _verdict(seen.at_once, _HELD_BACK),
    )
    yield _of_drift(seen)
    yield _of_records(contract, seen)
    yield from (_of_retention(contract, kept) for kept in seen.kept)
    if not seen.kept:
        yield Row(
            "how long keys are kept",
            "not looked at yet: run it again with the report",
            f"key_retention = {contract.key_retention}",
            Verdict.NOT_SEEN,
        )


def _of_drift(seen: Seen) -> Row:
    verdict = {
        None: Verdict.NOT_SEEN,
        _R.REFUSED_AS_CONFLICT: Verdict.HOLDS,
        _R.IN_PROGRESS: Verdict.NOT_SEEN,
        _R.UNCLEAR: Verdict.NOT_SEEN,
    }.get(seen.drift, Verdict.CLAIMS_TOO_MUCH)
    return Row(
        "the same key with other arguments",
        _told(seen.drift),
        "refused, and known as key_conflict",
        verdict,
    )


def _of_records(contract: EffectContract, seen: Seen) -> Row:
    claimed = contract.key_records
    keeps_all = claimed is KeyRecords.ALL_ANSWERS
    verdict = {
        AfterRefusal.KEY_WAS_TAKEN: Verdict.HOLDS if keeps_all else Verdict.CLAIMS_LESS,
        AfterRefusal.KEY_WAS_FREE: (
            Verdict.CLAIMS_TOO_MUCH if keeps_all else Verdict.HOLDS
        ),
    }.get(seen.after_refusal or AfterRefusal.UNCLEAR, Verdict.NOT_SEEN)
    told = {
        None: "not tried: sandbox.rejected_arguments is not given",
        AfterRefusal.KEY_WAS_TAKEN: "the key stayed bound to the refused request",
        AfterRefusal.KEY_WAS_FREE: "the key was free again",
        AfterRefusal.NOT_REFUSED: "sandbox.rejected_arguments were not refused",
        AfterRefusal.UNCLEAR: "nothing that proves anything",
    }[seen.after_refusal]
    return Row("a refusal under a key", told, f"key_records = {claimed}", verdict)


def _of_retention(contract: EffectContract, kept: Kept) -> Row:
    age = f"{kept.age_seconds:.0f} s"
    claimed = contract.key_retention
    inside = claimed is not None and kept.age_seconds < claimed.total_seconds()
    if kept.repeat is _R.SAME_OBJECT:
        seen, verdict = f"still kept after {age}", Verdict.HOLDS
        if not inside:
            verdict = Verdict.CLAIMS_LESS
    elif kept.repeat is _R.ANOTHER_OBJECT:
        seen = f"forgotten after {age}"
        verdict = Verdict.CLAIMS_TOO_MUCH if inside else Verdict.HOLDS
    else:
        seen, verdict = f"{_told(kept.repeat)} after {age}", Verdict.NOT_SEEN
    return Row("how long keys are kept", seen, f"key_retention = {claimed}", verdict)


def _of_lookup(contract: EffectContract, seen: Seen) -> Iterator[Row]:
    if contract.probe is None:
        return
    claimed = f"consistency = {contract.probe.consistency}"
    found = seen.lookup
    if found is None:
        yield Row("the lookup", "not tried: nothing was made", claimed, Verdict.NOT_SEEN)
        return
    yield Row(
        "a lookup of a key that was never sent",
        "claims to know it" if found.stranger else "does not know it",
        "absent",
        Verdict.CLAIMS_TOO_MUCH if found.stranger else Verdict.HOLDS,
    )
    if found.seconds is None:
        told = f"did not find it within {found.looked_for:.1f} s"
    elif found.other_id:
        told = "found an object with another id"
    else:
        told = f"found it after {found.seconds:.1f} s"
    bound = contract.settlement_bound
    limit = bound.total_seconds() if bound is not None else 0.0
    in_time = found.seconds is not None and found.seconds <= limit
    strong = contract.probe.strongly_consistent
    if found.other_id or (strong and not in_time):
        verdict = Verdict.CLAIMS_TOO_MUCH
    elif found.seconds is None:
        verdict = Verdict.NOT_SEEN
    else:
        verdict = Verdict.HOLDS
    yield Row(
        "a lookup of a fresh object",
        told,
        f"{claimed}, settlement_bound = {bound}",
        verdict,
    )


def _of_class(contract: EffectContract, seen: Seen) -> Row:
    could = proposed_class(seen)
    more = could not in (SafetyClass.UNSAFE, contract.safety)
    return Row(
        "the safety class",
        f"the target could carry {could}" if more else "nothing stronger was seen",
        f"safety = {contract.safety}",
        Verdict.CLAIMS_LESS if more else Verdict.HOLDS,
    )


def _told(repeat: Repeat | None) -> str:
    return "not tried" if repeat is None else _TOLD[repeat]


def _verdict(repeat: Repeat | None, good: frozenset[Repeat]) -> Verdict:
    if repeat is None or repeat is _R.UNCLEAR:
        return Verdict.NOT_SEEN
    return Verdict.HOLDS if repeat in good else Verdict.CLAIMS_TOO_MUCH
