"""URLs with placeholders: values fill path and query, percent-encoded, never the host."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote, urlsplit

from effect_broker.domain.errors import InvalidArguments

_PLACEHOLDER: Final = re.compile(r"\{([^{}]*)\}")
_NAME: Final = re.compile(r"[a-z_]+|arguments(?:\.[A-Za-z0-9_-]+)+")
_UNSAFE: Final = re.compile(r"[\x00-\x20\x7f-\U0010ffff\\^`|\"<>#]")


def placeholders(template: str) -> tuple[str, ...]:
    """Return the names between braces, in order."""
    return tuple(_PLACEHOLDER.findall(template))


def check_url(template: str, *, allowed: frozenset[str], based: bool) -> None:
    """Accept an absolute http(s) URL, or with `based` a path, whose host is fixed.

    Raises:
        ValueError: another scheme, credentials, a fragment, whitespace, a placeholder
            before the path, or one that nothing fills.
    """
    if _UNSAFE.search(template):
        raise ValueError("holds a character that must be percent-encoded, or a fragment")
    if based:
        if not template.startswith("/") or template.startswith("//"):
            raise ValueError("must be a path with one leading '/', since base_url is set")
    else:
        check_base_url(template.split("{", 1)[0])
        if "/" not in template.split("{", 1)[0].split("://", 1)[1] and "{" in template:
            raise ValueError("holds a placeholder in the host, which is never filled")
    for name in placeholders(template):
        if not _NAME.fullmatch(name):
            raise ValueError(f"{{{name}}} is no placeholder")
        if name.split(".")[0] not in allowed:
            raise ValueError(f"{{{name}}} is filled by nothing here")
    if re.search(r"[{}]", _PLACEHOLDER.sub("", template)):
        raise ValueError("holds an unbalanced brace")


def check_base_url(url: str) -> None:
    """Accept scheme and host, with an optional path and no credentials.

    Raises:
        ValueError: saying what is off.
    """
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"}:
        raise ValueError("must start with http:// or https://")
    if not parts.hostname:
        raise ValueError("names no host")
    if parts.username is not None or parts.password is not None:
        raise ValueError("must not carry credentials; use a header with a secret")
    if parts.port == 0:
        raise ValueError("names port 0")


def fill_url(template: str, values: Mapping[str, Any]) -> str:
    """Fill the placeholders from `values` (`{"downstream_key": …, "arguments": {…}}`).

    A value is a text or a whole number; each is percent-encoded as one piece, so that it
    cannot open a further segment, parameter or fragment. An empty value and the dot
    segments are refused: they would name another resource.

    Raises:
        InvalidArguments: a value is missing or cannot stand in a URL; it is not shown.
    """

    def piece(match: re.Match[str]) -> str:
        return quote(_value(match.group(1), values), safe="-_.~")

    return _PLACEHOLDER.sub(piece, template)


def _value(name: str, values: Mapping[str, Any]) -> str:
    found: Any = values
    for step in name.split("."):
        found = found.get(step) if isinstance(found, Mapping) else None
    pointer = "/" + "/".join(name.split(".")[1:])
    if isinstance(found, bool) or not isinstance(found, str | int):
        raise InvalidArguments(
            f"{name} must be a text or a whole number to stand in the URL.",
            pointers=(pointer,),
        )
    text = str(found)
    if text in {"", ".", ".."}:
        raise InvalidArguments(
            f"{name} is empty or a dot segment and cannot stand in the URL.",
            pointers=(pointer,),
        )
    return text
