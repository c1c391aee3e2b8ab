"""Schemas of what the HTTP surface reads by hand, and of the problems it answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from effect_broker.domain.resolution import Decision
from effect_broker.surfaces.requests import PROSE_MAX, TEXT_MAX
from effect_broker.surfaces.serving import WAIT_SECONDS_MAX

_TEXT: Final = {"type": "string", "minLength": 1, "maxLength": TEXT_MAX}
_PROSE: Final = {"type": "string", "minLength": 1, "maxLength": PROSE_MAX}
_OPTIONAL_TEXT: Final = {**_TEXT, "type": ["string", "null"]}

_OPERATION_KEY: Final = {
    "type": "string",
    "pattern": "^[!-~]([ -~]{0,253}[!-~])?$",
    "description": "Names the business intent; the same for every repeat of it, and never"
    " made from an attempt number or a tool-call id.",
    "examples": ["order:ord_123:charge:v1"],
}


def _exactly(
    properties: Mapping[str, Any], *required: str, description: str
) -> dict[str, Any]:
    return {
        "type": "object",
        "description": description,
        "additionalProperties": False,
        "required": list(required),
        "properties": dict(properties),
    }


SCHEMAS: Final[Mapping[str, Any]] = {
    "EffectSubmission": _exactly(
        {
            "operation_key": _OPERATION_KEY,
            "tool": _TEXT,
            "arguments": {
                "type": "object",
                "description": "What the tool's schema takes; see /v1/tools.",
            },
            "requested_by": _OPTIONAL_TEXT,
            "trace_id": _OPTIONAL_TEXT,
        },
        "operation_key",
        "tool",
        "arguments",
        description="A business intent. Unknown fields and duplicate names are refused.",
    ),
    "Finding": _exactly(
        {
            "decision": {"type": "string", "enum": [str(item) for item in Decision]},
            "reason": _PROSE,
            "evidence": {"anyOf": [{"type": "object"}, _PROSE]},
            "observed_at": {
                "type": ["string", "null"],
                "format": "date-time",
                "description": "When the target was looked at; required for a finding of"
                " absence once an attempt was made.",
            },
            "expected_version": {"type": "integer", "minimum": 1},
            "decision_id": {
                **_TEXT,
                "description": "Makes a repeat of this finding safe.",
            },
            "external_id": _OPTIONAL_TEXT,
            "output": {"description": "What the target holds, if committed."},
        },
        "decision",
        "reason",
        "evidence",
        "expected_version",
        "decision_id",
        description="What an operator found at the target.",
    ),
    "Compensation": _exactly(
        {"compensated_by": {"type": "string", "format": "uuid"}, "reason": _PROSE},
        "compensated_by",
        "reason",
        description="The succeeded effect that undid this one.",
    ),
    "Fork": {
        "description": "A simulation from a point of the history, or live work.",
        "anyOf": [
            _exactly(
                {
                    "at_sequence": {"type": "integer", "minimum": 1},
                    "live": {"type": "boolean", "const": False},
                },
                "at_sequence",
                description="Go on with the recorded answers; nothing is sent.",
            ),
            _exactly(
                {
                    "live": {"type": "boolean", "const": True},
                    "operation_key": _OPERATION_KEY,
                },
                "live",
                "operation_key",
                description="Reserve the payload anew; the scope operate is needed.",
            ),
        ],
    },
    "Nothing": _exactly({}, description="An empty object, or no body at all."),
    "Problem": {
        "type": "object",
        "description": "RFC 9457. `code` is stable; other members depend on it.",
        "required": ["type", "title", "status", "detail", "code"],
        "properties": {
            "type": {"type": "string", "format": "uri"},
            "title": {"type": "string"},
            "status": {"type": "integer"},
            "detail": {"type": "string"},
            "code": {"type": "string"},
            "instance": {"type": "string", "format": "uri"},
            "effect_id": {"type": "string", "format": "uuid"},
            "effect_status": {"type": "string"},
            "differing_fields": {"type": "array", "items": {"type": "string"}},
            "fields": {"type": "object", "additionalProperties": {"type": "string"}},
            "pointers": {"type": "array", "items": {"type": "string"}},
            "version": {"type": "integer"},
            "not_before": {"type": "string", "format": "date-time"},
            "scope": {"type": "string"},
            "safe_to_repeat": {"type": "boolean"},
            "retry_after_seconds": {"type": "integer"},
            "links": {"type": "object", "additionalProperties": {"type": "string"}},
        },
    },
}

PREFER: Final[Mapping[str, Any]] = {
    "name": "Prefer",
    "in": "header",
    "required": False,
    "schema": {"type": "string", "examples": ["wait=1"]},
    "description": "wait=N (RFC 7240) holds the answer until the effect is terminal or N"
    f" seconds are over, at most {WAIT_SECONDS_MAX}; Preference-Applied tells.",
}

IF_MATCH: Final[Mapping[str, Any]] = {
    "name": "If-Match",
    "in": "header",
    "required": False,
    "schema": {"type": "string", "examples": ['"3"']},
    "description": "The ETag of the effect as it was read; 412 where it has moved on.",
}
