"""What an operator gives to a command: texts, files, and who they are."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Final

import typer

FREE: Final = "@file, or - for standard input"


def read_text(value: str, option: str) -> Any:
    """Return a JSON object where the value is one, else the text itself."""
    text = _read(value, option)
    return read_json(text, option) if text.lstrip().startswith("{") else text


def read_json(value: str, option: str) -> Any:
    """Return the one strict JSON value of an option, a file or standard input."""
    from effect_broker.domain.canonical import parse_strict
    from effect_broker.domain.errors import InvalidJson

    try:
        return parse_strict(_read(value, option).encode("utf-8", "surrogatepass"))
    except InvalidJson as error:
        raise typer.BadParameter(error.message, param_hint=option) from None


def whoami() -> str:
    """Return how a history names whoever runs this command."""
    import getpass
    import os

    try:
        return f"operator:{getpass.getuser()}"
    except (KeyError, OSError):
        return f"operator:uid-{os.getuid()}"


def _read(value: str, option: str) -> str:
    if value == "-":
        return sys.stdin.read()
    if not value.startswith("@"):
        return value
    try:
        return Path(value[1:]).read_text()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "is no UTF-8 text"
        raise typer.BadParameter(f"{value[1:]}: {why}.", param_hint=option) from None
