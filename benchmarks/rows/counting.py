"""What one effect takes, counted and not timed: round trips, commits, log, dead rows."""

from __future__ import annotations

from typing import Final

from benchmarks.arithmetic import Measured
from benchmarks.bench import Bench
from benchmarks.broker import BrokerClient, WatchedConnections, request
from benchmarks.clients import Clients
from benchmarks.server import Place, query
from benchmarks.steps import Steps
from benchmarks.wal import WalMeter
from effect_broker.ledger.connection import Connections
from effect_broker.ledger.postgres import PostgresLedger
from effect_broker.ports import StepStatus

EFFECTS: Final = 20
BATCH: Final = 100
KILOBYTE: Final = 1000

IMMUTABLE: Final = (
    "effect_intents",
    "effect_events",
    "effect_attempts",
    "effect_attempt_endings",
    "effect_receipts",
)

_CIPHERTEXT: Final = """
SELECT coalesce(sum(octet_length(sealed)), 0)
FROM (
    SELECT arguments_ciphertext AS sealed FROM effect_broker.effect_intents
    UNION ALL SELECT result_ciphertext FROM effect_broker.effect_attempt_endings
    UNION ALL SELECT result_ciphertext FROM effect_broker.effect_receipts
) stored
"""

_DEAD: Final = """
SELECT coalesce(sum((pgstattuple(t.relid)).dead_tuple_count), 0)
FROM pg_partition_tree('effect_broker.{}') t
WHERE t.isleaf
"""


async def round_trips(bench: Bench) -> Measured:
    """Count the answers that submit, claim and receipt wait for."""
    with bench.server.place() as place:
        connections = WatchedConnections(place.url)
        client = BrokerClient(place, connections=connections)
        await client.effect(request())
        connections.round_trips()
        for _ in range(EFFECTS):
            await client.effect(request())
        count = connections.round_trips()
        await client.close()
    return Measured(count / EFFECTS)


async def commits(bench: Bench) -> Measured:
    """Count the commits of submit, claim and receipt in the log."""
    with bench.server.place() as place:
        client = BrokerClient(place)
        await client.effect(request())
        with bench.server.quiet():
            log = WalMeter(place.url)
            for _ in range(EFFECTS):
                await client.effect(request())
            written = log.written()
        await client.close()
    return Measured(written.commits / EFFECTS)


async def commits_in_batches(bench: Bench) -> Measured:
    """Count the commits of a hundred effects that go through the steps together."""
    with bench.server.place() as place, Clients(place.url, 1) as busy:
        steps = Steps(place)
        with bench.server.quiet():
            log = WalMeter(place.url)
            intents = sorted(
                (steps.intent() for _ in range(BATCH)), key=lambda it: it.effect_id
            )
            busy.run(steps.reserve(*intents))
            claim = steps.claim(BATCH, effect_ids=[it.effect_id for it in intents])
            busy.run(claim)
            token = claim.parameters["token"]
            written = [steps.receipt(it.effect_id, token) for it in intents]
            done = busy.run(steps.finish(*written))
            found = log.written()
    assert [row[0] for row in done] == ["applied"] * BATCH
    return Measured(found.commits)


async def round_trips_in_process(bench: Bench) -> Measured:
    """Count the answers that the ledger waits for where it reserves leased."""
    with bench.server.place() as place:
        connections = WatchedConnections(place.url)
        ledger, steps = PostgresLedger(connections), Steps(place)
        await _reserved_leased(ledger, steps)
        connections.round_trips()
        for _ in range(EFFECTS):
            await _reserved_leased(ledger, steps)
        count = connections.round_trips()
        await connections.close()
    return Measured(count / EFFECTS)


async def commits_in_process(bench: Bench) -> Measured:
    """Count the commits of the same in the log."""
    with bench.server.place() as place:
        connections = Connections(place.url)
        ledger, steps = PostgresLedger(connections), Steps(place)
        await _reserved_leased(ledger, steps)
        with bench.server.quiet():
            log = WalMeter(place.url)
            for _ in range(EFFECTS):
                await _reserved_leased(ledger, steps)
            written = log.written()
        await connections.close()
    return Measured(written.commits / EFFECTS)


async def log_written(bench: Bench) -> Measured:
    """Count the log of one effect, in kilobytes, without images and ciphertext."""
    effects = bench.size(1000, quick=200)
    with bench.server.place() as place:
        client = BrokerClient(place)
        await client.effect(request())
        with bench.server.quiet():
            sealed_before = _sealed(place)
            log = WalMeter(place.url)
            for done in range(effects):
                await client.effect(request())
                bench.told(done / effects)
            written = log.written()
            sealed = _sealed(place) - sealed_before
        await client.close()
    return Measured(
        (written.bytes - sealed) / effects / KILOBYTE,
        {
            "with_ciphertext_kb": written.bytes / effects / KILOBYTE,
            "images_kb": written.images / effects / KILOBYTE,
        },
    )


async def dead_rows(bench: Bench) -> Measured:
    """Count dead rows that effects leave in the immutable tables."""
    effects = bench.size(1000, quick=200)
    with bench.server.place() as place, Clients(place.url, 4) as busy:
        await busy.seconds_each(Steps(place).whole, effects)
        dead = {table: _dead(place, table) for table in IMMUTABLE}
    return Measured(sum(dead.values()), dead)


async def _reserved_leased(ledger: PostgresLedger, steps: Steps) -> None:
    intent, order = steps.intent(), steps.order(1)
    _, claim = await ledger.reserve_leased(intent, order)
    assert claim is not None
    (done,) = await ledger.record([steps.receipt(intent.effect_id, claim.token)])
    assert done.status is StepStatus.APPLIED


def _sealed(place: Place) -> int:
    return int(query(place.url, _CIPHERTEXT)[0][0])


def _dead(place: Place, table: str) -> int:
    return int(query(place.url, _DEAD.format(table))[0][0])
