"""The command line as Typer knows it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer

from docs.rendering.markdown import code, table
from effect_broker.surfaces.cli.app import app


def commands() -> str:
    """List every command with what it does, what it needs and what it may be told."""
    return table(
        ("command", "does", "options"),
        [(_usage(path, it), _does(it), _optional(it)) for path, it in _walk()],
    )


def _walk() -> Iterator[tuple[str, Any]]:
    """Yield commands with their words, groups in their order."""
    pending: list[tuple[str, Any]] = [("", typer.main.get_command(app))]
    while pending:
        path, command = pending.pop(0)
        inner = getattr(command, "commands", None)
        if inner is None:
            yield path, command
        else:
            named = [(f"{path} {name}".strip(), it) for name, it in inner.items()]
            pending = named + pending


def _usage(path: str, command: Any) -> str:
    """Return the words that must be typed."""
    needed = [
        f"{parameter.opts[0]} {_value(parameter)}"
        if _is_option(parameter)
        else _value(parameter)
        for parameter in command.params
        if parameter.required
    ]
    return code(" ".join([path, *needed]))


def _optional(command: Any) -> str:
    options = [
        code(parameter.opts[0])
        for parameter in command.params
        if not parameter.required and not getattr(parameter, "hidden", False)
    ]
    return " ".join(options)


def _value(parameter: Any) -> str:
    many = "…" if parameter.nargs == -1 else ""
    return f"{parameter.metavar or parameter.name.upper()}{many}"


def _is_option(parameter: Any) -> bool:
    return str(parameter.opts[0]).startswith("-")


def _does(command: Any) -> str:
    first, _, _ = (command.help or "").partition("\n\n")
    return first.replace("\n", " ")
