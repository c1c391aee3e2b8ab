"""Commands about effects: what an operator reads, asks for and decides."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from effect_broker.domain.status import EffectStatus
from effect_broker.surfaces.cli.effects_telling import (
    print_effect,
    print_effects,
    print_fork,
    print_timeline,
)
from effect_broker.surfaces.cli.given import FREE, read_json, read_text, whoami
from effect_broker.surfaces.cli.ground import (
    REFUSED,
    AsJson,
    on_the_ledger,
    print_rows,
    span,
)
from effect_broker.surfaces.cli.reach import find_effect, one_tenant, tenants

if TYPE_CHECKING:
    from effect_broker.wiring.core import Core

app = typer.Typer(no_args_is_help=True, help="List, read and decide effects.")

EffectId = Annotated[str, typer.Argument(help="The effect's id.")]
Tenant = Annotated[
    str | None,
    typer.Option(
        envvar="EFFECT_BROKER_TENANT",
        help="The tenant's short name; without it every tenant is looked through.",
    ),
]
Reason = Annotated[str, typer.Option(help="Why, in a sentence; kept encrypted.")]


@app.command("submit")
def submit(
    operation_key: Annotated[
        str, typer.Option(help="Names the business intent, for ever.")
    ],
    tool: Annotated[str, typer.Option(help="The tool that a contract names.")],
    arguments: Annotated[str, typer.Option(help=f"A JSON object, {FREE}.")] = "{}",
    wait: Annotated[
        int, typer.Option(min=0, max=20, help="Seconds to wait for the receipt.")
    ] = 0,
    requested_by: str | None = None,
    tenant: Tenant = None,
    as_json: AsJson = False,
) -> None:
    """Reserve an effect, or show the one that the key stands for already."""
    from effect_broker.domain.intent import EffectRequest
    from effect_broker.surfaces import serving

    given = read_json(arguments, "--arguments")
    if not isinstance(given, dict):
        raise typer.BadParameter("must be a JSON object.", param_hint="--arguments")
    request = EffectRequest(operation_key, tool, given, requested_by)

    async def run(core: Core) -> Any:
        owner = await one_tenant(core, tenant)
        patience = timedelta(seconds=wait)
        return owner.slug, await serving.submit(
            core.broker, owner.tenant_id, request, patience=patience
        )

    slug, answer = on_the_ledger(run, seals=True)
    print_effect(slug, answer, as_json=as_json)


@app.command("list")
def list_effects(
    status: Annotated[
        EffectStatus | None,
        typer.Option(help="outcome_unknown lists all that is unproved."),
    ] = None,
    contradicted: Annotated[
        bool,
        typer.Option(
            "--contradicted", help="Settled ones against which a late answer speaks."
        ),
    ] = False,
    tool: str | None = None,
    older_than: Annotated[
        timedelta | None, typer.Option(parser=span, metavar="SPAN")
    ] = None,
    operation_prefix: str | None = None,
    limit: Annotated[int, typer.Option(min=1, help="The most to show.")] = 50,
    tenant: Tenant = None,
    as_json: AsJson = False,
) -> None:
    """List effects, newest first: age, state, contract, why, and what may be done."""
    from effect_broker.surfaces.cli.reach import newest_effects

    async def run(core: Core) -> Any:
        from effect_broker.ports import EffectQuery

        unknown = status is EffectStatus.OUTCOME_UNKNOWN
        query = EffectQuery(
            status=None if unknown else status,
            unknown=unknown,
            contradicted=contradicted,
            tool=tool,
            older_than=older_than,
            operation_prefix=operation_prefix,
        )
        return await newest_effects(core, await tenants(core, tenant), query, limit)

    found, more = on_the_ledger(run)
    print_effects(found, more=more, as_json=as_json)


@app.command("inspect")
def inspect(
    effect_id: EffectId,
    at_sequence: Annotated[
        int | None, typer.Option(min=1, help="As it stood after this event.")
    ] = None,
    tenant: Tenant = None,
    as_json: AsJson = False,
) -> None:
    """Draw an effect's history, attempts and deadlines."""
    from effect_broker.surfaces.cli.inspecting import inspected

    async def run(core: Core) -> Any:
        owner, found = await find_effect(core, tenant, effect_id)
        return await inspected(core, owner, found, at_sequence)

    print_timeline(on_the_ledger(run), as_json=as_json)


@app.command("reconcile")
def reconcile(
    effect_id: EffectId, tenant: Tenant = None, as_json: AsJson = False
) -> None:
    """Make an unknown effect due for reconciliation; never forces a retry."""
    from effect_broker.surfaces import serving

    async def run(core: Core) -> Any:
        owner, found = await find_effect(core, tenant, effect_id)
        return owner.slug, await serving.reconcile(
            core.broker, owner.tenant_id, found, actor=whoami()
        )

    slug, answer = on_the_ledger(run)
    print_effect(slug, answer, as_json=as_json)


@app.command("resolve")
def resolve(
    effect_id: EffectId,
    decision: Annotated[
        str, typer.Option(metavar="committed|not_committed|failed", help="What is so.")
    ],
    reason: Reason,
    evidence: Annotated[
        str, typer.Option(help=f"What shows it: a text, or a JSON object, {FREE}.")
    ],
    expected_version: Annotated[
        int, typer.Option(min=1, help="The version that you have read.")
    ],
    observed_at: Annotated[
        str | None,
        typer.Option(help="When the target was looked at: RFC 3339 with an offset."),
    ] = None,
    external_id: str | None = None,
    output: Annotated[
        str | None, typer.Option(help=f"The target's own answer as JSON, {FREE}.")
    ] = None,
    decision_id: Annotated[
        str | None, typer.Option(help="Makes a repeat safe; your ticket's number.")
    ] = None,
    tenant: Tenant = None,
    as_json: AsJson = False,
) -> None:
    """Record what was found at the target about an effect that waits for a person."""
    from effect_broker.surfaces.cli.deciding import resolved

    stated = {
        "decision": decision,
        "reason": reason,
        "evidence": read_text(evidence, "--evidence"),
        "expected_version": expected_version,
        "observed_at": observed_at,
        "external_id": external_id,
        "output": None if output is None else read_json(output, "--output"),
        "decision_id": decision_id or f"cli:{decision}:{expected_version}",
    }

    async def run(core: Core) -> Any:
        owner, found = await find_effect(core, tenant, effect_id)
        return owner.slug, await resolved(core, owner, found, stated)

    slug, answer = on_the_ledger(run, seals=True)
    print_effect(slug, answer, as_json=as_json)


@app.command("compensate")
def compensate(
    effect_id: EffectId,
    by: Annotated[str, typer.Option(help="The effect that undid it.")],
    reason: Reason,
    tenant: Tenant = None,
    as_json: AsJson = False,
) -> None:
    """Link a succeeded effect to the succeeded effect that undid it."""
    from effect_broker.surfaces.cli.deciding import compensated

    async def run(core: Core) -> Any:
        owner, found = await find_effect(core, tenant, effect_id)
        return owner.slug, await compensated(core, owner, found, by, reason)

    slug, answer = on_the_ledger(run, seals=True)
    print_effect(slug, answer, as_json=as_json)


@app.command("fork")
def fork(
    effect_id: EffectId,
    at_sequence: Annotated[
        int | None, typer.Option(min=1, help="Go on from this event, on record only.")
    ] = None,
    live: Annotated[
        bool, typer.Option("--live", help="Reserve the payload anew: it may act again.")
    ] = False,
    operation_key: Annotated[
        str | None, typer.Option(help="A key of its own, for --live.")
    ] = None,
    tenant: Tenant = None,
    as_json: AsJson = False,
) -> None:
    """Go on from a point with the recorded answers, or reserve the payload anew."""
    from effect_broker.surfaces.cli.deciding import forked_live, simulated

    if live != (operation_key is not None) or live == (at_sequence is not None):
        raise typer.BadParameter("give --at-sequence, or --live with --operation-key.")

    async def run(core: Core) -> Any:
        owner, found = await find_effect(core, tenant, effect_id)
        if operation_key is not None:
            return owner.slug, await forked_live(core, owner, found, operation_key)
        assert at_sequence is not None, "one of the two is given"
        return owner.slug, await simulated(core, owner, found, at_sequence)

    slug, answer = on_the_ledger(run, seals=True)
    if live:
        print_effect(slug, answer, as_json=as_json)
    else:
        print_fork(answer, as_json=as_json)


@app.command("verify")
def verify(
    effect_ids: Annotated[list[str], typer.Argument(help="Effects' ids.")],
    tenant: Tenant = None,
    as_json: AsJson = False,
) -> None:
    """Recompute histories and receipts, here and in the database; 1 if one is broken."""

    async def run(core: Core) -> Any:
        rows = []
        for effect_id in effect_ids:
            owner, found = await find_effect(core, tenant, effect_id)
            broken = await core.ledger.verify(owner.tenant_id, found)
            rows.append({"effect_id": effect_id, "holds": not broken, "broken": broken})
        return rows

    rows = on_the_ledger(run)
    print_rows(rows, ("effect_id", "holds", "broken"), as_json=as_json, empty="")
    if any(row["broken"] for row in rows):
        raise typer.Exit(REFUSED)
