"""What a contract over an upstream MCP server may claim."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from effect_broker.contracts import parse_contracts
from effect_broker.domain.canonical import canonical
from effect_broker.domain.contract import ContractRulesBroken, EffectContract
from effect_broker.domain.contract_mcp import McpMeaningTable
from effect_broker.domain.errors import InvalidArguments

GUIDE = Path(__file__).parents[2] / "docs" / "mcp.md"
LOOKUP: dict[str, Any] = {"tool": "find_ticket", "key_argument": "/reference"}
PROBE: dict[str, Any] = {"consistency": "strong", "found": "/tickets/0"}


def table(safety: str, mcp: dict[str, Any] | None = None, **changes: Any) -> Any:
    """Return an honest contract of a class, changed; None takes a field out."""
    terms: dict[str, Any] = {
        "url": "https://tickets.example/mcp",
        "tool": "create_ticket",
        "headers": {"Authorization": {"secret": "tickets/token", "prefix": "Bearer "}},
        "account": "main",
        "external_id": "/id",
    }
    made: dict[str, Any] = {
        "tool": "tickets.create",
        "name": "tickets-create",
        "version": "1",
        "safety": safety,
        "adapter": "mcp",
        "attempt_timeout": "10s",
        "settlement_bound": "30s",
        "arguments": {"type": "object"},
    }
    if safety != "unsafe":
        terms |= {"key_argument": "/key", "lookup": LOOKUP}
        made |= {"probe": PROBE, "key_retention": "24h"}
    terms |= mcp or {}
    made |= changes
    made["mcp"] = {name: value for name, value in terms.items() if value is not None}
    return {name: value for name, value in made.items() if value is not None}


def reasons(made: Any) -> str:
    with pytest.raises(ValidationError) as refused:
        EffectContract.model_validate(made)
    (problem,) = refused.value.errors()
    broken = problem["ctx"]["error"]
    assert isinstance(broken, ContractRulesBroken)
    return "; ".join(broken.reasons)


@pytest.mark.parametrize(
    ("made", "named"),
    [
        (table("idempotent", {"key_argument": None}), ["mcp.key_argument", "safety"]),
        (table("reconcilable", {"key_argument": None}), ["mcp.key_argument", "safety"]),
        (table("unsafe", {"key_argument": "/key"}), ["mcp.key_argument", "safety"]),
        (
            table("unsafe", {"headers": {"Idempotency-Key": "one"}}),
            ["Idempotency-Key", "mcp.headers", "safety"],
        ),
        (table("idempotent", {"key_argument": ""}), ["mcp.key_argument"]),
        (
            table(
                "idempotent",
                {"key_argument": "/meta/key"},
                arguments={
                    "type": "object",
                    "properties": {"meta": {"type": "object", "properties": {"key": {}}}},
                },
            ),
            ["mcp.key_argument", "arguments"],
        ),
        (table("reconcilable", {"lookup": None}), ["mcp.lookup", "probe"]),
        (table("idempotent", probe=None), ["mcp.lookup", "probe"]),
        (table("reconcilable", probe=None), ["probe", "safety"]),
        (
            table("reconcilable", {"lookup": LOOKUP | {"tool": "create_ticket"}}),
            ["mcp.lookup.tool", "mcp.tool"],
        ),
        (
            table("reconcilable", {"lookup": LOOKUP | {"key_argument": ""}}),
            ["mcp.lookup.key_argument", "mcp.lookup.arguments"],
        ),
        (
            table("reconcilable", {"lookup": LOOKUP | {"arguments": {"reference": "x"}}}),
            ["mcp.lookup.key_argument", "mcp.lookup.arguments"],
        ),
        (
            table(
                "reconcilable",
                {"lookup": LOOKUP | {"key_argument": "/a/b", "arguments": {"a": 1}}},
            ),
            ["mcp.lookup.key_argument", "mcp.lookup.arguments"],
        ),
        (
            table("reconcilable", probe={"consistency": "strong"}),
            ["adapter", "probe.found"],
        ),
        (
            table(
                "reconcilable",
                probe=PROBE | {"url": "https://t.example/{downstream_key}"},
            ),
            ["probe.url", "adapter"],
        ),
        (
            table("reconcilable", probe=PROBE | {"headers": {"X-A": "b"}}),
            ["probe.headers", "adapter"],
        ),
        (
            table("reconcilable", probe=PROBE | {"absent": ["404"]}),
            ["probe.absent", "adapter"],
        ),
        (table("transactional"), ["safety", "adapter"]),
    ],
    ids=str,
)
def test_promise_that_other_fields_cannot_carry_is_refused_by_their_names(
    made: Any, named: list[str]
) -> None:
    told = reasons(made)
    assert all(name in told for name in named), told


@pytest.mark.parametrize(
    "made",
    [
        table("unsafe"),
        table("idempotent"),
        table("idempotent", {"lookup": None}, probe=None),
        table("reconcilable"),
        table("reconcilable", {"lookup": LOOKUP | {"arguments": {"limit": 1}}}),
        table(
            "idempotent",
            {
                "meaning": {
                    "code": "/code",
                    "error/taken": "key_conflict",
                    "429": "rejected",
                }
            },
        ),
    ],
    ids=str,
)
def test_honest_contract_loads_and_survives_its_document(made: Any) -> None:
    loaded = EffectContract.model_validate(made)
    again = EffectContract.from_document(loaded.document())
    assert again == loaded
    assert again.digest() == loaded.digest()


def test_contract_published_before_meanings_and_lookups_keeps_its_digest() -> None:
    digest = "898c3dc78749d723b581ee660baf669d199933a57f613f0df1c0938f66a4ea77"
    loaded = EffectContract.model_validate(table("unsafe"))
    assert loaded.digest().hex() == digest
    assert EffectContract.from_document(canonical(table("unsafe"))) == loaded


def test_contracts_in_the_guide_load_with_the_meanings_that_it_shows() -> None:
    blocks = re.findall(r"```toml\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    made = [block for block in blocks if block.startswith("[[contracts]]")]
    (meaning,) = (it for it in blocks if it.startswith("[contracts.mcp.meaning]"))
    loaded = [parse_contracts((it + meaning).encode())[0] for it in made]
    assert [it.safety for it in loaded] == ["unsafe", "reconcilable"]
    assert all(it.mcp and "rpc/-32602" in it.mcp.meaning.entries for it in loaded)


def test_caller_cannot_take_the_place_of_the_key() -> None:
    loaded = EffectContract.model_validate(table("idempotent"))
    loaded.check_arguments({"title": "a"})
    with pytest.raises(InvalidArguments) as refused:
        loaded.check_arguments({"title": "a", "key": "mine"})
    assert refused.value.pointers == ("/key",)


@pytest.mark.parametrize(
    "entries",
    [
        {"5xx": "rejected"},
        {"5xx": "not_executed"},
        {"rpc/-32603": "rejected_final"},
        {"error/declined": "rejected"},
        {"2xx": "committed"},
        {"200": "committed"},
        {"302": "rejected"},
        {"503/busy": "rejected", "code": "/code"},
        {"rpc": "rejected"},
        {"rpc/": "rejected"},
        {"rpc/-0": "rejected"},
        {"rpc/007": "rejected"},
        {"rpc/x": "rejected"},
        {"errors": "rejected"},
        {"error": "retry"},
        {"error": "rejected", "code": "code"},
    ],
    ids=repr,
)
def test_meaning_that_could_hide_a_commit_or_never_be_met_is_refused(
    entries: dict[str, str],
) -> None:
    with pytest.raises(ValidationError):
        McpMeaningTable.model_validate(entries)


@pytest.mark.parametrize(
    "entries",
    [
        {},
        {"5xx": "in_progress"},
        {"503": "not_executed"},
        {"4xx": "rejected"},
        {"rpc/0": "rejected"},
        {"rpc/-32602": "rejected_final"},
        {"rpc/-32603": "in_progress"},
        {"error": "rejected_final"},
        {"error/a/b": "rejected", "code": "/code"},
    ],
    ids=repr,
)
def test_meaning_that_a_server_can_document_is_taken(entries: dict[str, str]) -> None:
    table = McpMeaningTable.model_validate(entries)
    assert {**table.entries} == {k: v for k, v in entries.items() if k != "code"}
