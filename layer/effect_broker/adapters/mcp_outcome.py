"""From a tool's call to what it proved, by the contract's table of meanings alone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from effect_broker.adapters.answers import (
    id_at,
    lookup_result,
    speaks_for_the_key,
    uncommitted,
)
from effect_broker.adapters.http_evidence import evidence_of, retry_after, target_time
from effect_broker.adapters.output import schema_flags
from effect_broker.adapters.wire.body import read_body
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
    mean what the contract lists; what it does not list, and everything else once the call
    has left, is ambiguous. Only a code that the tool itself gave speaks for the key: a
    plain error may come from what stands in front of the tool.
    """
    evidence = evidence_of(call.request, call.known)
    if not call.known.sent:
        return unsent(call.known.failure or call.failure, evidence)
    if call.result is not None and not call.result.is_error:
        return _committed(contract, call, evidence)
    entry, reason = _listed(contract, call)
    meaning = None if entry is None else _table(contract).entries[entry]
    if meaning is Meaning.COMMITTED:
        return _committed(contract, call, evidence)
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
    if result is None or result.is_error or result.structured_content is None:
        if result is not None:
            evidence["failure"] = "tool_error" if result.is_error else "not_structured"
        evidence.setdefault("failure", call.failure)
        return ProbeResult(ProbeStatus.UNKNOWN, evidence=evidence)
    return lookup_result(
        effect,
        result.structured_content,
        evidence,
        id_in_found=None if terms is None else terms.external_id,
    )


def output_of(result: CallToolResult) -> Any:
    """Return what a tool said: its structured answer, or its contents."""
    if result.structured_content is not None:
        return result.structured_content
    contents = [it.model_dump(mode="json", by_alias=True) for it in result.content]
    return {"content": contents}


def _committed(contract: EffectContract, call: ToolCall, evidence: Evidence) -> Committed:
    assert contract.mcp is not None
    if call.result is None:
        return Committed(None, target_time=target_time(call.known), evidence=evidence)
    output, pointer = output_of(call.result), contract.mcp.external_id
    return Committed(
        external_id=None if pointer is None else id_at(output, pointer),
        output=output,
        flags=schema_flags(contract, output),
        target_time=target_time(call.known),
        evidence=evidence,
    )


def _table(contract: EffectContract) -> McpMeaningTable:
    assert contract.mcp is not None
    return contract.mcp.meaning


def _listed(contract: EffectContract, call: ToolCall) -> tuple[str | None, str]:
    """Find the entry for an answer, the most specific first, and a word for the reason.

    The word repeats a code only where the contract lists it.
    """
    table, status = _table(contract), call.known.status
    plain = call.known.failure or call.failure
    asked: list[str] = []
    if call.result is not None:
        plain = "tool_error"
        code = None if table.code is None else id_at(output_of(call.result), table.code)
        asked = ["error"] if code is None else [f"error/{code}", "error"]
    elif status is not None:
        asked = [str(status), f"{status // 100}xx"]
        if status >= HTTPStatus.MULTIPLE_CHOICES:
            plain = f"status_{status}"
        if (number := _rpc_code(call)) is not None:
            plain = "rpc_error"
            asked.insert(0, f"rpc/{number}")
    entry = next((key for key in asked if key in table.entries), None)
    return entry, plain if entry is None or "/" not in entry else entry


def _rpc_code(call: ToolCall) -> int | None:
    """Read the code of the JSON-RPC error that the server sent, as it stands on the wire.

    The client makes errors of its own up, for a body that broke off or for a status:
    their codes are not the server's word. An error without an id answers a request that
    was refused before its id was read, and there was no other request.
    """
    assert call.request is not None
    own = json.loads(call.request.body)["id"]
    for message in _messages(call.known):
        match message:
            case {"error": {"code": int(code)}} if message.get("id") in (None, own):
                return code
    return None


def _messages(known: Exchange) -> Iterator[Any]:
    """Read what stands in an answer: one message, or the events that ended."""
    if not (known.header(b"content-type") or "").lower().startswith("text/event-stream"):
        yield read_body(known).value
        return
    text = bytes(known.body).replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    for event in text.split(b"\n\n")[:-1]:
        lines = [line[5:] for line in event.split(b"\n") if line.startswith(b"data:")]
        with suppress(ValueError, RecursionError):
            yield json.loads(b"\n".join(lines))
