"""The HTTP API as the application describes itself."""

from __future__ import annotations

import json
from typing import Any, cast

from docs.rendering.markdown import code, table
from effect_broker.broker.facade import EffectBroker
from effect_broker.surfaces.auth import Authenticator
from effect_broker.surfaces.http_api import HttpParts, create_app


def document() -> str:
    """Return the description that a running broker serves."""
    return json.dumps(_described(), indent=2, ensure_ascii=False) + "\n"


def routes() -> str:
    """List methods and paths, each with what it does."""
    return table(
        ("method and path", "does"),
        [
            (code(f"{method.upper()} {path}"), operation["description"].split("\n\n")[0])
            for path, operations in _described()["paths"].items()
            for method, operation in operations.items()
        ],
    )


def _described() -> dict[str, Any]:
    """Ask an application that stands on nothing: describing itself needs no part."""
    parts = HttpParts(
        broker=cast(EffectBroker, None),
        authenticator=cast(Authenticator, None),
        ready=_never_asked,
    )
    return create_app(parts).openapi()


async def _never_asked() -> None:
    raise AssertionError("nothing is served here")
