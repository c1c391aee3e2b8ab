"""From a tool's call to what it proved, by the contract's table of meanings alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from effect_broker.adapters.answers import (
    id_at,
    lookup_result,
    speaks_for_the_key,
    uncommitted,
)
from effect_broker.adapters.http_evidence import evidence_of, retry_after, target_time
from effect_broker.adapters.mcp_wire import WireAnswer, read_answer
from effect_broker.adapters.output import schema_flags
from effect_broker.adapters.wire.body import UNPARSED
from effect_broker.adapters.wire.exchange import Exchange, WireRequest
from effect_broker.adapters.wire.gate import unsent
from effect_broker.domain.contract import EffectContract, Meaning, SafetyClass
from effect_broker.domain.contract_mcp import McpMeaningTable
from effect_broker.domain.intent import EffectRecord
from effect_broker.domain.outcome import (
    Committed,
    Evidence,
    Outcome,
    ProbeResult,
    ProbeStatus,
)

if TYPE_CHECKING:
    from mcp.types import CallToolResult


ODD_ANSWER: Final = "odd_answer"
"""It breaks off, cannot be read, says two things, or answers another request."""


@dataclass(slots=True)
class ToolCall:
    """One call of one tool: what left, what came back, and else a stable word for why.

    `result` stands as soon as it came, whatever comes after.
    """

    tool: str
    arguments: dict[str, Any] = field(default_factory=dict, repr=False)
    request: WireRequest | None = None
    known: Exchange = field(default_factory=Exchange)
    result: CallToolResult | None = None
    failure: str = "no_handshake"

    def answer(self) -> WireAnswer:
        """Read what the server itself answered; to a call that never left, nothing."""
        if self.request is None:
            return WireAnswer()
        return read_answer(self.request, self.known)

    def timed_out(self) -> None:
        """Name the end of its time as what ended it, where nothing else had."""
        self.failure = "timed_out"
        if self.known.failure == "cancelled":
            self.known.failure = "timed_out"


def carries_key(contract: EffectContract) -> bool:
    """Say whether calls carry the downstream key; to an unsafe tool none does."""
    terms = contract.mcp
    return (
        terms is not None
        and terms.key_argument is not None
        and contract.safety is not SafetyClass.UNSAFE
    )


def outcome_of(contract: EffectContract, call: ToolCall, wall: float) -> Outcome:
    """Say what an attempt proved.

    A result that is no error is a commit. An error result, a JSON-RPC error and a status
    mean what the contract lists. What it does not list is ambiguous, and so is everything
    else once the call has left, such as an answer that breaks off, says two things or
    answers another request. Only a code that the tool itself gave speaks for the key: a
    plain error may come from what stands in front of the tool.
    """
    evidence = evidence_of(call.request, call.known)
    if not call.known.sent:
        return unsent(call.known.failure or call.failure, evidence)
    answer = call.answer()
    if call.result is not None and not call.result.is_error and answer.is_result:
        return _committed(contract, call, answer, evidence)
    entry, reason = _listed(contract, call, answer)
    meaning = None if entry is None else _table(contract).entries[entry]
    if meaning is Meaning.COMMITTED:
        return _committed(contract, call, answer, evidence)
    coded = entry is not None and entry.startswith("error/")
    return uncommitted(
        meaning,
        reason,
        evidence,
        patience=retry_after(call.known, wall),
        from_key_record=coded and speaks_for_the_key(contract, carries_key(contract)),
    )


def probe_result_of(effect: EffectRecord, call: ToolCall) -> ProbeResult:
    """Say what a lookup proved; an error and a result without structure prove nothing.

    Whether a text means "nothing there" is for no program to say.
    """
    evidence = dict(evidence_of(None, call.known))
    terms, result = effect.contract.mcp, call.result
    answer = call.answer()
    if result is None:
        evidence.setdefault("failure", call.failure)
    elif result.is_error:
        evidence["failure"] = "tool_error"
    elif result.structured_content is None:
        evidence["failure"] = "not_structured"
    elif not (answer.plain and answer.kept):
        evidence["failure"] = ODD_ANSWER
    else:
        return lookup_result(
            effect,
            result.structured_content,
            evidence,
            id_in_found=None if terms is None else terms.external_id,
        )
    return ProbeResult(ProbeStatus.UNKNOWN, evidence=evidence)


def output_of(result: CallToolResult) -> Any:
    """Return what a tool said: its structured answer, or its contents."""
    if result.structured_content is not None:
        return result.structured_content
    contents = [it.model_dump(mode="json", by_alias=True) for it in result.content]
    return {"content": contents}


def _committed(
    contract: EffectContract, call: ToolCall, answer: WireAnswer, evidence: Evidence
) -> Committed:
    assert contract.mcp is not None
    moment = target_time(call.known)
    if call.result is None:
        return Committed(None, target_time=moment, evidence=evidence)
    if not answer.kept:
        return Committed(
            None,
            raw=bytes(call.known.body),
            flags=(UNPARSED,),
            target_time=moment,
            evidence=evidence,
        )
    output, pointer = output_of(call.result), contract.mcp.external_id
    return Committed(
        external_id=None if pointer is None else id_at(output, pointer),
        output=output,
        flags=schema_flags(contract, output),
        target_time=moment,
        evidence=evidence,
    )


def _table(contract: EffectContract) -> McpMeaningTable:
    assert contract.mcp is not None
    return contract.mcp.meaning


def _listed(
    contract: EffectContract, call: ToolCall, answer: WireAnswer
) -> tuple[str | None, str]:
    """Find the entry for an answer, the most specific first, and a word for the reason.

    The word repeats a code only where the contract lists it.
    """
    table, status = _table(contract), call.known.status
    plain = call.known.failure or call.failure
    asked: list[str] = []
    if call.result is not None:
        plain = "tool_error" if answer.plain else ODD_ANSWER
        code = None if table.code is None else id_at(output_of(call.result), table.code)
        asked = ["error"] if code is None else [f"error/{code}", "error"]
        asked = asked if answer.plain else []
    elif status is not None:
        asked = [str(status), f"{status // 100}xx"] if call.known.complete else []
        if answer.code is not None:
            plain = "rpc_error"
            asked.insert(0, f"rpc/{answer.code}")
        elif answer.results or answer.errors:
            plain, asked = ODD_ANSWER, []
        elif status >= HTTPStatus.MULTIPLE_CHOICES:
            plain = f"status_{status}"
    entry = next((key for key in asked if key in table.entries), None)
    return entry, plain if entry is None or "/" not in entry else entry
