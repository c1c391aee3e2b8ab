"""The command that looks for what is wrong before it hurts."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from effect_broker.surfaces.cli.ground import (
    AWAY,
    REFUSED,
    AsJson,
    on_the_ledger,
    print_json,
)

if TYPE_CHECKING:
    from effect_broker.surfaces.diagnosis.examination import PostPath
    from effect_broker.surfaces.diagnosis.finding import Finding
    from effect_broker.wiring.core import Core


def doctor(
    deep: Annotated[
        bool,
        typer.Option("--deep", help="Recompute every reference, chain and receipt."),
    ] = False,
    post_path: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Leads to --listen through the same proxies as the targets: tried for"
            " what repeats a POST.",
        ),
    ] = None,
    listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Where --post-path must arrive.")
    ] = "127.0.0.1:0",
    as_json: AsJson = False,
) -> None:
    """Say what is wrong with this deployment, where, and what to do.

    Ends with 1 where something is broken, with 3 where the ledger cannot be reached.
    """
    from effect_broker.surfaces.diagnosis.examination import Examination

    path = None if post_path is None else _path(post_path, listen)

    async def run(core: Core) -> Any:
        examination = Examination(core, deep, path, _announce)
        return await examination.findings(), examination.ledger_away

    findings, away = on_the_ledger(run)
    for finding in findings:
        if as_json:
            print_json(asdict(finding))
        else:
            _print_finding(finding)
    if away:
        raise typer.Exit(AWAY)
    if any(finding.verdict == "broken" for finding in findings):
        raise typer.Exit(REFUSED)


def _print_finding(finding: Finding) -> None:
    """Print what is so in a paragraph, and what to do about it in another."""
    import shutil
    import textwrap

    width = max(60, shutil.get_terminal_size().columns)
    head = f"{finding.verdict:<8} {finding.check:<20} "
    told = f"{finding.where}: {finding.what}"
    blank = " " * len(head)
    print(textwrap.fill(told, width, initial_indent=head, subsequent_indent=blank))
    if finding.do:
        print(
            textwrap.fill(
                finding.do,
                width,
                initial_indent=f"{blank}→ ",
                subsequent_indent=f"{blank}  ",
                break_on_hyphens=False,
            )
        )


def _path(url: str, listen: str) -> PostPath:
    from effect_broker.surfaces.diagnosis.examination import PostPath

    host, _, port = listen.rpartition(":")
    if not host or not port.isdecimal():
        raise typer.BadParameter("must be HOST:PORT.", param_hint="--listen")
    return PostPath(url, host, int(port))


def _announce(text: str) -> None:
    sys.stderr.write(f"effect-broker: {text}\n")
