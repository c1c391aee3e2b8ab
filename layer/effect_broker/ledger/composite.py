"""Writes rows as PostgreSQL's text form of composite arrays.

One parameter carries a whole batch with named fields on the other side, where an array
for each column would cost more on both sides and lose the names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, Final
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


def array(values: Iterable[Field]) -> str:
    """Write an array of values as a parameter; the driver's own way takes longer."""
    return "{" + ",".join(map(_field, values)) + "}"


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
    written = _WRITERS.get(type(value))
    # An enumeration's member is a text, whatever its class.
    return _text(str(value)) if written is None else written(value)


def _text(value: str) -> str:
    return _quoted(storable(value))


def _bytes(value: bytes) -> str:
    return f'"\\\\x{value.hex()}"'


def _instant(value: datetime) -> str:
    return f'"{value.isoformat()}"'


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


_WRITERS: Final[dict[type, Callable[[Any], str]]] = {
    type(None): lambda _: "",
    str: _text,
    bytes: _bytes,
    bool: lambda value: "t" if value else "f",
    int: str,
    UUID: str,
    datetime: _instant,
}
