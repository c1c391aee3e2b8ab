"""JSON pointers (RFC 6901): how contracts name a place in arguments and answers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Annotated, Any, Final

from pydantic import AfterValidator, StrictStr

_SYNTAX: Final = re.compile(r"(?:/(?:[^~/]|~[01])*)*")
_INDEX: Final = re.compile(r"0|[1-9]\d{0,8}")

MISSING: Final = object()
"""What `at_pointer` returns where nothing stands; None is a value of its own."""


@lru_cache(maxsize=1024)
def pointer_tokens(pointer: str) -> tuple[str, ...]:
    """Split a pointer into its unescaped steps; the empty pointer is the whole document.

    Raises:
        ValueError: it does not start with a slash, or a tilde escapes nothing.
    """
    if not _SYNTAX.fullmatch(pointer):
        raise ValueError(f"{pointer!r} is no JSON pointer; write for example '/data/0'")
    steps = pointer.split("/")[1:]
    return tuple(step.replace("~1", "/").replace("~0", "~") for step in steps)


def at_pointer(document: Any, pointer: str) -> Any:
    """Return what stands at the pointer, or `MISSING`."""
    for step in pointer_tokens(pointer):
        if isinstance(document, Mapping):
            document = document.get(step, MISSING)
        elif _is_array(document) and _INDEX.fullmatch(step):
            index = int(step)
            document = document[index] if index < len(document) else MISSING
        else:
            return MISSING
    return document


def _is_array(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _checked(pointer: str) -> str:
    pointer_tokens(pointer)
    return pointer


JsonPointer = Annotated[StrictStr, AfterValidator(_checked)]
"""A text that `pointer_tokens` accepts."""
