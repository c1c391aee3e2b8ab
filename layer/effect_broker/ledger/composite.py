"""Writes rows as PostgreSQL's text form of composite arrays.

One parameter carries a whole batch with named fields on the other side, where an array
for each column would cost more on both sides and lose the names.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from uuid import UUID

Field = str | bytes | int | bool | UUID | datetime | None


def row(*fields: Field) -> str:
    """Write one composite value; nested ones are passed as their text.

    Text from targets may hold what PostgreSQL's text cannot: NUL and lone surrogates
    become the replacement character.
    """
    return f"({','.join(map(_field, fields))})"


def rows(values: Iterable[str]) -> str:
    """Write an array of composite values."""
    return "{" + ",".join(map(_quoted, values)) + "}"


def text_array(values: Iterable[str]) -> str:
    """Write an array of text as a field."""
    return "{" + ",".join(_quoted(storable(value)) for value in values) + "}"


def storable(text: str) -> str:
    """Return text that PostgreSQL can hold, the same but for NUL and lone surrogates."""
    if "\0" in text:
        text = text.replace("\0", "\ufffd")
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _field(value: Field) -> str:
    match value:
        case None:
            return ""
        case str():
            return _quoted(storable(value))
        case bytes():
            return f'"\\\\x{value.hex()}"'
        case bool():
            return "t" if value else "f"
        case datetime():
            return f'"{value.isoformat()}"'
        case _:
            return str(value)


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
