"""What a cell came to, read from the target's table and the ledger's rows alone."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import psycopg
from psycopg.rows import namedtuple_row

from examples.crash_matrix.matrix.times import MATRIX_TIMES, Times
from examples.crash_matrix.target.client import Charge, DemoTarget, SeenRequest

EFFECTS = """
    SELECT i.effect_id, i.operation_key, i.contract_id, i.tenant_id,
        w.status::text AS live_status, w.claim_token, r.kind::text AS ended_as,
        (SELECT count(*) FROM effect_broker.effect_contradictions c
            WHERE c.effect_id = i.effect_id) AS contradictions
    FROM effect_broker.effect_intents i
    LEFT JOIN effect_broker.effect_work w USING (effect_id)
    LEFT JOIN effect_broker.effect_receipts r USING (effect_id)
    WHERE {mine}
"""
ATTEMPTS = """
    SELECT a.effect_id, a.ordinal, a.worker, a.started_at, a.send_deadline,
        a.key_generation, n.ended_at, n.kind::text AS kind, n.late, n.reason
    FROM effect_broker.effect_attempts a
    JOIN effect_broker.effect_intents i USING (effect_id)
    LEFT JOIN effect_broker.effect_attempt_endings n USING (effect_id, ordinal)
    WHERE {mine}
    ORDER BY a.effect_id, a.ordinal
"""
EVENTS = """
    SELECT v.effect_id, v.sequence, v.type::text AS type,
        v.old_status::text AS old_status, v.new_status::text AS new_status, v.actor, v.at,
        v.metadata, v.digest
    FROM effect_broker.effect_events v
    JOIN effect_broker.effect_intents i USING (effect_id)
    WHERE {mine} ORDER BY v.effect_id, v.sequence
"""
RECEIPTS = """
    SELECT r.receipt_id, r.effect_id, r.kind::text AS kind, r.source, r.external_id,
        r.created_at, r.xmin::text AS transaction
    FROM effect_broker.effect_receipts r
    JOIN effect_broker.effect_intents i USING (effect_id)
    WHERE {mine}
"""
LOCAL_CHARGES = """
    SELECT id::text AS id, 'local' AS world, amount, currency, order_name AS order,
        NULL AS reference, downstream_key AS key, made_at::text AS created_at,
        xmin::text AS transaction
    FROM public.charges WHERE order_name = %(order)s ORDER BY id
"""
ALL_OF_IT = "true"
ONE_KEY = "i.operation_key = %(operation_key)s"
HELD = "SELECT reason FROM effect_broker.ledger_control WHERE dispatch_held"


@dataclass(frozen=True)
class LocalCharge(Charge):
    """A row of the business table that stands in the ledger's own database."""

    transaction: str


@dataclass(frozen=True)
class Evidence:
    """Everything that a judge looks at; rows are named tuples of the ledger's tables."""

    effects: Sequence[Any] = ()
    attempts: Sequence[Any] = ()
    events: Sequence[Any] = ()
    receipts: Sequence[Any] = ()
    holds: Sequence[Any] = ()
    charges: Sequence[Charge] = ()
    """At T these are rows beside the ledger's, and know their transaction."""
    requests: Sequence[SeenRequest] = ()
    times: Times = MATRIX_TIMES

    @property
    def posts(self) -> Sequence[SeenRequest]:
        """The requests that could have charged."""
        return [seen for seen in self.requests if seen.method == "POST"]

    @property
    def status(self) -> str:
        """The effect's state in the ledger; a word of its own where there is none."""
        if len(self.effects) != 1:
            return "none" if not self.effects else "several"
        effect = self.effects[0]
        return str(effect.ended_as or effect.live_status)

    @property
    def history(self) -> Sequence[str]:
        """The types of its events, in order."""
        return [str(event.type) for event in self.events]


async def read_evidence(
    url: str,
    target: DemoTarget,
    order: str,
    *,
    operation_key: str | None = None,
    times: Times = MATRIX_TIMES,
) -> Evidence:
    """Read it all, where the ledger is the cell's own; else what has one operation
    key.
    """
    mine = ALL_OF_IT if operation_key is None else ONE_KEY
    given = {"order": order, "operation_key": operation_key}
    requests = await asyncio.to_thread(target.requests, order)
    charges = await asyncio.to_thread(target.charges, order)
    async with await psycopg.AsyncConnection.connect(
        url, row_factory=namedtuple_row
    ) as reading:
        found = [
            await (
                await reading.execute(statement.format(mine=mine).encode(), given)
            ).fetchall()
            for statement in (EFFECTS, ATTEMPTS, EVENTS, RECEIPTS, HELD)
        ]
        local = await reading.execute(LOCAL_CHARGES.encode(), given)
        charges += [LocalCharge(*row) for row in await local.fetchall()]
    effects, attempts, events, receipts, holds = found
    return Evidence(effects, attempts, events, receipts, holds, charges, requests, times)


def instant(text: str) -> datetime:
    """Read an instant as the target writes it."""
    return datetime.fromisoformat(text)
