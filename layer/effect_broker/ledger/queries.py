"""Loads the named statements of `sql/`: Python holds no SQL text.

A file is a sequence of blocks, each a line `-- name: <name>`, a sentence of why, and one
statement with psycopg's named placeholders.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Final

_BLOCK: Final = re.compile(r"^-- name: (\w+)\n((?:-- .*\n)+)", re.MULTILINE)


@cache
def statements(table: str) -> Mapping[str, bytes]:
    """Return the statements of one file, by name.

    Raises:
        ValueError: a name stands twice, or a block has no sentence or no statement.
    """
    text = (files("effect_broker.ledger") / "sql" / f"{table}.sql").read_text("utf-8")
    _, *parts = _BLOCK.split(text)
    if text.count("-- name:") != len(parts) // 3:
        raise ValueError(f"{table}.sql has a block without a sentence.")
    found: dict[str, bytes] = {}
    for name, _why, statement in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
        if name in found or not statement.strip():
            raise ValueError(f"{table}.sql: {name} stands twice or has no statement.")
        found[name] = statement.strip().rstrip(";").encode()
    return MappingProxyType(found)


def tables() -> list[str]:
    """Return the names of all files of statements."""
    folder = files("effect_broker.ledger") / "sql"
    return sorted(entry.name.removesuffix(".sql") for entry in folder.iterdir())
