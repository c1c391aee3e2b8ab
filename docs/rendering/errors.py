"""The errors: the tree as the module draws it, and how HTTP answers each."""

from __future__ import annotations

import inspect

from docs.rendering.markdown import code, table
from effect_broker.domain import errors
from effect_broker.surfaces.problem import FRAMEWORK, ROWS, internal_problem


def tree() -> str:
    """Return the tree that the module's docstring draws."""
    drawn = inspect.cleandoc(errors.__doc__ or "").partition("\n\n")[2]
    return f"```text\n{drawn}\n```"


def answers() -> str:
    """List what HTTP answers, one line for each stable code, by status."""
    defect = internal_problem()
    rows = {(defect.status, defect.code): defect.title}
    for cls, row in ROWS.items():
        if row.status != defect.status:
            rows[row.status, cls.code] = row.title
    for status, (stable, title) in FRAMEWORK.items():
        rows.setdefault((status, stable), title)
    return table(
        ("status", "code", "title"),
        [(str(status), code(name), rows[status, name]) for status, name in sorted(rows)],
    )
