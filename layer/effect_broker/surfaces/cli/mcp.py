"""The command that serves MCP."""

from __future__ import annotations

import asyncio
import os
import sys
from datetime import timedelta
from typing import Annotated

import typer

from effect_broker.settings import Settings
from effect_broker.surfaces.cli.ground import REFUSED, refusals


def mcp(
    http: Annotated[
        bool, typer.Option("--http", help="Serve HTTP at /mcp in place of stdio.")
    ] = False,
    host: str = "127.0.0.1",
    port: int = 8081,
    wait: Annotated[
        float, typer.Option(min=0, max=20, help="Seconds a tool holds its answer.")
    ] = 3.0,
) -> None:
    """Serve the contracts' tools to MCP clients, on stdio or over HTTP.

    On stdio the key of EFFECT_BROKER_API_KEY says whose calls they are; over HTTP each
    client sends its own as a bearer token.
    """
    try:
        from effect_broker.surfaces.mcp import process
    except ModuleNotFoundError as error:
        sys.stderr.write(
            f"effect-broker: {error.name} is missing: pip install effect-broker[mcp]\n"
        )
        raise typer.Exit(REFUSED) from None
    patience = timedelta(seconds=wait)
    with refusals():
        settings = Settings.from_environment()
        if http:
            asyncio.run(
                process.serve_http(
                    settings, host, port, announce=_print_address, patience=patience
                )
            )
            return
        api_key = os.environ.get("EFFECT_BROKER_API_KEY", "")
        if not api_key:
            sys.stderr.write(
                "effect-broker: EFFECT_BROKER_API_KEY is not set: a key of"
                " `effect-broker keys create` says whose calls these are.\n"
            )
            raise typer.Exit(REFUSED)
        asyncio.run(process.serve_stdio(settings, api_key, patience=patience))


def _print_address(address: str) -> None:
    print(address, flush=True)
