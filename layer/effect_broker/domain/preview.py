"""What of the arguments may stand in the clear: declared names, and what is shown."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from effect_broker.domain.pointer import MISSING, at_pointer, pointer_tokens

if TYPE_CHECKING:
    from effect_broker.domain.contract import EffectContract

MASK: Final = "***"
TEXT_LENGTH_MAX: Final = 120
"""Enough to recognise an order or a city; more is reading, not recognising."""
PREVIEW_LENGTH_MAX: Final = 2_000
"""A preview stands in a list beside others and in every backup."""


def preview(arguments: Mapping[str, Any], contract: EffectContract) -> str:
    """Render the arguments for people: everything is masked but what `redact.show` names.

    Names that the schema does not declare are data and are masked as well. What does not
    fit 2,000 characters loses its shown values before its names.
    """
    declared = contract.arguments.get("properties", {})
    masked = {name if name in declared else MASK: MASK for name in arguments}
    shown = dict(masked)
    for pointer in contract.redact.show:
        value = at_pointer(arguments, pointer)
        if value is not MISSING:
            _place(shown, pointer_tokens(pointer), _short(value))
    for candidate in (shown, masked):
        text = json.dumps(candidate, ensure_ascii=False, sort_keys=True)
        if len(text) <= PREVIEW_LENGTH_MAX:
            return text
    return json.dumps({MASK: MASK})


def _place(shown: dict[str, Any], steps: tuple[str, ...], value: Any) -> None:
    for step in steps[:-1]:
        below = shown.get(step)
        if not isinstance(below, dict):
            below = shown[step] = {}
        shown = below
    shown[steps[-1]] = value


def _short(value: Any) -> Any:
    if isinstance(value, str) and len(value) > TEXT_LENGTH_MAX:
        return value[:TEXT_LENGTH_MAX] + "…"
    return value
