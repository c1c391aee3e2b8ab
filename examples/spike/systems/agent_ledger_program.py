"""agent-ledger over its PostgreSQL store; the handler passes `effect.idem_key` on, as its
documentation advises.

The variant `takeover` sets `StaleOptions.after_ms`, which is 0 (off) by default.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

from agent_ledger import (  # type: ignore[import-not-found]
    ConcurrencyOptions,
    EffectLedger,
    EffectLedgerOptions,
    RunOptions,
    StaleOptions,
    ToolCall,
)
from agent_ledger.stores.postgres import (  # type: ignore[import-not-found]
    SCHEMA_SQL,
    PostgresStore,
)
from psycopg_pool import AsyncConnectionPool  # type: ignore[import-not-found]

from examples.spike.systems.charging import Turn, main, told

WAIT_SECONDS = 5.0
"""For somebody else's call: 30 by default; the crash is longer ago than either."""

TAKEOVER_MILLISECONDS = 1_000


async def turn_of(turn: Turn) -> tuple[str, str]:
    """Run the tool through the ledger, once."""
    call = ToolCall(workflow_id=turn.order, tool="charge", args=turn.arguments)
    takeover = TAKEOVER_MILLISECONDS if turn.variant == "takeover" else 0
    options = RunOptions(
        concurrency=ConcurrencyOptions(effect_timeout_s=WAIT_SECONDS),
        stale=StaleOptions(after_ms=takeover),
    )

    async def handler(effect: Any) -> Any:
        return await asyncio.to_thread(turn.charge, effect.idem_key)

    async with AsyncConnectionPool(conninfo=turn.store, open=False) as pool:
        async with pool.connection() as connection:
            await connection.execute(SCHEMA_SQL)
        ledger = EffectLedger(EffectLedgerOptions(store=PostgresStore(pool=pool)))
        try:
            result = await ledger.run(call, handler=handler, run_options=options)
            heard = f"succeeded: {_charge_of(result)}"
        except Exception as error:  # noqa: BLE001 - whatever the system tells its caller
            heard = told(error)
        effect = await ledger.find_by_idem_key(ledger.idem_key(call))
        return heard, str(effect.status.value) if effect else "nothing"


def _charge_of(result: Any) -> str:
    document = json.loads(result) if isinstance(result, str) else result
    return str(document["id"])


def run(turn: Turn) -> tuple[str, str]:
    """Run one turn on an event loop."""
    return asyncio.run(turn_of(turn))


if __name__ == "__main__":
    main(run)
