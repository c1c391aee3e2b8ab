"""The database: reachable, durable, migrated, on one clock, with nothing odd between."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from effect_broker.domain.contract import CLOCK_MARGIN
from effect_broker.ledger.health import Backends, LedgerClock, PostgresHealth, Server
from effect_broker.ledger.migrate import APPLICATION
from effect_broker.ledger.retention import LIVE_SHOWN_MAX, Month, PostgresRetention
from effect_broker.surfaces.diagnosis.finding import Finding, broken, ok, warning
from effect_broker.wiring.core import Core

VERSION_MIN: Final = 160_000


async def look_at_database(core: Core) -> list[Finding]:
    """Look at the server, its schema, its clock, a hold, and the way to it.

    Raises:
        LedgerUnavailable: it cannot be reached.
    """
    health = PostgresHealth(core.connections)
    server = await health.server()
    found = list(server_findings(server))
    schema = await core.ledger.schema_state()
    if schema != "ok":
        found.append(
            broken(
                "migrations",
                "schema effect_broker",
                f"The schema is {schema}, and this release cannot work on it.",
                "Run `effect-broker migrate` with this release, or deploy the release"
                " that the schema belongs to.",
            )
        )
        return found
    found.append(ok("migrations", "schema effect_broker", "This release's."))
    before = core.clock.wall()
    clock = await health.clock()
    found += clock_findings(clock, before, core.clock.wall())
    found += pooler_findings(await health.backends())
    found.append(await _hold(core))
    retention = PostgresRetention(core.connections)
    months, strays = await retention.months(), await retention.strays()
    found += partition_findings(months, strays, clock.now)
    return found


def server_findings(server: Server) -> Iterator[Finding]:
    """Judge what the connection reaches."""
    major = server.version // 10_000
    where = f"PostgreSQL {major}, as {server.role}"
    if server.version < VERSION_MIN:
        yield broken("database", where, "Older than 16.", "Upgrade the server.")
    elif server.recovering:
        yield broken(
            "database", where, "This is a replica.", "Name the writer's endpoint."
        )
    else:
        yield ok("database", where, "Reachable, and the writer.")
    yield _durability(server, where)
    yield _role(server, where)


def _durability(server: Server, where: str) -> Finding:
    off = [
        name
        for name, on in (
            ("fsync", server.fsync),
            ("full_page_writes", server.full_page_writes),
            ("synchronous_commit", server.synchronous_commit != "off"),
        )
        if not on
    ]
    if not off:
        said = f"synchronous_commit is {server.synchronous_commit}."
        return ok("durability", where, said)
    return broken(
        "durability",
        where,
        f"{', '.join(off)} off: an acknowledged attempt may be forgotten in a crash, and"
        " be sent again.",
        "Switch it on, for the role and in the server.",
    )


def _role(server: Server, where: str) -> Finding:
    missing = [
        name
        for name, there in (
            ("statement_timeout", server.statements_end),
            ("idle_in_transaction_session_timeout", server.idle_transactions_end),
        )
        if not there
    ]
    if missing:
        return warning(
            "role settings",
            where,
            f"No {' and no '.join(missing)}: a stuck session holds locks, and slows each"
            " claim.",
            f"Connect as {APPLICATION}, or set them on this role; a pooler must pass them"
            " on.",
        )
    if server.superuser or server.owner:
        who = "A superuser" if server.superuser else "The ledger's owner, or a member"
        return warning(
            "role settings",
            where,
            f"{who}: it may drop the triggers that keep history as it was written.",
            f"Let the broker connect as {APPLICATION}; only what migrates needs more.",
        )
    return ok("role settings", where, "Statements and idle transactions end.")


def clock_findings(clock: LedgerClock, before: float, after: float) -> Iterator[Finding]:
    """Judge the ledger's clock against this host's, read before and after."""
    host = datetime.fromtimestamp((before + after) / 2, UTC)
    doubt = timedelta(seconds=(after - before) / 2)
    apart = clock.now - host
    shown = f"{apart.total_seconds():+.3f} s"
    if abs(apart) - doubt > CLOCK_MARGIN:
        yield warning(
            "clocks",
            "this host against the database",
            f"The database is {shown} from this host. Waits are the database's, so that"
            " nothing is sent too early; logs and `observed_at` are off.",
            "Synchronise both with the same time source.",
        )
    else:
        yield ok("clocks", "this host against the database", f"{shown} apart.")
    if clock.last_event_at is not None and clock.last_event_at > clock.now + CLOCK_MARGIN:
        yield broken(
            "clocks",
            "database",
            f"The last event is of {clock.last_event_at.isoformat()}: the database's"
            " clock has gone back.",
            "Find out which clock is right before dispatch goes on.",
        )


def pooler_findings(backends: Backends) -> Iterator[Finding]:
    """Judge what stands between here and the database by who answers."""
    where = "between this host and the database"
    if len(set(backends.held)) > 1:
        yield broken(
            "pooler",
            where,
            "Statements of one transaction reach several backends.",
            "Switch the pooler to transaction mode; statement mode breaks transactions.",
        )
    elif {backends.announced} == {*backends.loose, *backends.held}:
        yield ok("pooler", where, "None, or one that keeps a session's backend.")
    else:
        yield ok(
            "pooler",
            where,
            "A pooler in transaction mode; nothing here depends on a session.",
        )


def partition_findings(
    months: Sequence[Month], strays: int, now: datetime
) -> Iterator[Finding]:
    """Judge whether the months to come have partitions, and all that came had them."""
    where, make = "months", "`effect-broker ledger partitions --make`."
    ahead = sum(it.month > now.date() for it in months)
    if not ahead:
        yield warning(
            "partitions",
            where,
            "The next month has none: its effects will lie in no month, where they are"
            " correct and cannot be archived. The reconciler's sweep makes them.",
            f"Find out why it does not, then {make}",
        )
    else:
        yield ok("partitions", where, f"{ahead} months ahead have theirs.")
    if strays:
        some = f"{strays}{'' if strays < LIVE_SHOWN_MAX else ' or more'}"
        yield warning(
            "partitions",
            "effects outside any month",
            f"{some} came while their month had none: they are correct, and cannot be"
            " archived or dropped.",
            "Nothing, unless there are many: prune their payloads in time.",
        )


async def _hold(core: Core) -> Finding:
    hold = await core.ledger.dispatch_hold()
    if hold is None:
        return ok("dispatch", "ledger", "Not held.")
    return broken(
        "dispatch",
        "ledger",
        f"Held since {hold.since.isoformat()}: {hold.reason}",
        "Compare the ledger with its targets, then `effect-broker dispatch release`.",
    )
