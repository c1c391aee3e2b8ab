"""The tools: one for each published contract, and those that read and ask."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from mcp.types import Tool, ToolAnnotations

from effect_broker.domain.contract import EffectContract
from effect_broker.surfaces.auth import OPERATE, READ, SUBMIT
from effect_broker.surfaces.mcp.answers import EffectResult, EffectsResult, ReceiptResult

OPERATION_KEY: Final = "operation_key"
WAIT_SECONDS_MAX: Final = 20

_KEY: Final[Mapping[str, Any]] = {
    "type": "string",
    "minLength": 1,
    "maxLength": 255,
    "pattern": "^[!-~]([ -~]*[!-~])?$",
    "description": (
        "Names the business intent, such as order:ord_123:refund:v1. Use the same one"
        " whenever the same intent is tried again, and another one only for another"
        " intent. Never a random value, an attempt number or a call id."
    ),
}
_EFFECT_ID: Final = {"type": "string", "format": "uuid"}


def proxied(contract: EffectContract) -> Tool | None:
    """Return the tool of a contract: its own schema, plus the operation key.

    None where the contract's arguments have a field of that name already: such a tool is
    reached by the other surfaces. Upstream hints say nothing here; what stands is true of
    every class: it writes, and again under the same key it has no further effect.
    """
    schema = dict(contract.arguments)
    properties = dict(schema.get("properties", {}))
    if OPERATION_KEY in properties:
        return None
    schema["type"] = "object"
    schema["properties"] = {OPERATION_KEY: dict(_KEY), **properties}
    required = [it for it in schema.get("required", ()) if it != OPERATION_KEY]
    schema["required"] = [OPERATION_KEY, *required]
    said = f"{contract.description} " if contract.description else ""
    return Tool(
        name=contract.tool,
        description=(
            f"{said}Goes through effect-broker ({contract.safety}): {contract.guarantee}"
        ),
        input_schema=schema,
        output_schema=EffectResult.model_json_schema(),
        annotations=ToolAnnotations(
            read_only_hint=False,
            destructive_hint=True,
            idempotent_hint=True,
            open_world_hint=True,
        ),
    )


def _reading(
    name: str, description: str, properties: Mapping[str, Any], answer: type[Any]
) -> Tool:
    required = [it for it in properties if it == "effect_id"]
    return Tool(
        name=name,
        description=description,
        input_schema={
            "type": "object",
            "properties": dict(properties),
            "required": required,
            "additionalProperties": False,
        },
        output_schema=answer.model_json_schema(),
        annotations=ToolAnnotations(
            read_only_hint=True, idempotent_hint=True, open_world_hint=False
        ),
    )


GET_EFFECT: Final = _reading(
    "get_effect",
    "Tell where an effect stands, with its receipt once there is one.",
    {
        "effect_id": _EFFECT_ID,
        "wait_seconds": {
            "type": "integer",
            "minimum": 0,
            "maximum": WAIT_SECONDS_MAX,
            "description": "Hold the answer until the effect is terminal, or so long.",
        },
    },
    EffectResult,
)
LIST_UNKNOWN: Final = _reading(
    "list_unknown_effects",
    "List the effects of which nobody has proved whether they happened.",
    {"limit": {"type": "integer", "minimum": 1, "maximum": 100}},
    EffectsResult,
)
GET_RECEIPT: Final = _reading(
    "get_receipt",
    "Return the immutable receipt of an effect that has ended.",
    {"effect_id": _EFFECT_ID},
    ReceiptResult,
)
REQUEST_RECONCILIATION: Final = _reading(
    "request_reconciliation",
    "Ask the broker to look at an unknown effect now; it never forces a repeat.",
    {"effect_id": _EFFECT_ID},
    EffectResult,
).model_copy(
    update={
        "annotations": ToolAnnotations(
            read_only_hint=False,
            destructive_hint=False,
            idempotent_hint=True,
            open_world_hint=True,
        )
    }
)

MANAGEMENT: Final[Mapping[str, tuple[Tool, tuple[str, ...]]]] = {
    GET_EFFECT.name: (GET_EFFECT, (READ, SUBMIT)),
    LIST_UNKNOWN.name: (LIST_UNKNOWN, (READ,)),
    GET_RECEIPT.name: (GET_RECEIPT, (READ,)),
    REQUEST_RECONCILIATION.name: (REQUEST_RECONCILIATION, (SUBMIT,)),
}
"""Each with the scopes of which a key must hold one, as over HTTP; OPERATE includes READ.

`get_effect` alone is open to SUBMIT too: every answer to a submission sends the agent
there, and one that could not go would call again instead.
"""

SUBMITTING: Final = (SUBMIT,)
PASSING: Final = (READ, SUBMIT)


def allows(held: frozenset[str], wanted: tuple[str, ...]) -> bool:
    """Say whether a key may call a tool."""
    scopes = held | ({READ} if OPERATE in held else set())
    return not scopes.isdisjoint(wanted)
