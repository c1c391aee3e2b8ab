"""What the Python client repeats by itself, and what it raises."""

from __future__ import annotations

from docs.rendering.markdown import code, table
from effect_broker.client import errors
from effect_broker.client.calls import REPEATS


def repeats() -> str:
    """List every call with what makes its repeat safe."""
    return table(
        ("call", "a repeat is safe by"),
        [(code(name), reason) for name, reason in REPEATS.items()],
    )


def tree() -> str:
    """Return the tree of errors as the module draws it."""
    drawn = (errors.__doc__ or "").split("\n\n")[1]
    return f"```text\n{drawn}\n```"
