"""Registered functions: the application's own mutations, and ways in which they fail."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import Any

from psycopg import AsyncCursor, Error

from effect_broker.adapters.sql import MutationRefused
from effect_broker.domain.intent import EffectRecord

INSERT = (
    "INSERT INTO public.charges (operation_key, amount) VALUES (%s, %s)"
    " RETURNING id, amount"
)


class Pause:
    """Where a mutation stands still, its row written, until a test lets it go on."""

    reached: asyncio.Event
    go: asyncio.Event

    @classmethod
    def prepare(cls) -> None:
        cls.reached, cls.go = asyncio.Event(), asyncio.Event()


async def charge(cursor: AsyncCursor[Any], effect: EffectRecord) -> Any:
    """Write one charge."""
    request = effect.request
    await cursor.execute(INSERT, [request.operation_key, request.arguments["amount"]])
    return await cursor.fetchone()


async def charge_slowly(cursor: AsyncCursor[Any], effect: EffectRecord) -> Any:
    written = await charge(cursor, effect)
    Pause.reached.set()
    await Pause.go.wait()
    return written


async def charge_and_die(cursor: AsyncCursor[Any], effect: EffectRecord) -> Any:
    await charge(cursor, effect)
    os.kill(os.getpid(), signal.SIGKILL)


async def charge_and_refuse(cursor: AsyncCursor[Any], effect: EffectRecord) -> Any:
    await charge(cursor, effect)
    raise MutationRefused("account_closed")


async def charge_and_break(cursor: AsyncCursor[Any], effect: EffectRecord) -> Any:
    await charge(cursor, effect)
    raise KeyError(effect.request.operation_key)


async def charge_and_commit(cursor: AsyncCursor[Any], effect: EffectRecord) -> Any:
    await charge(cursor, effect)
    await cursor.execute("COMMIT")


async def charge_and_begin_anew(cursor: AsyncCursor[Any], effect: EffectRecord) -> Any:
    await charge(cursor, effect)
    await cursor.execute("COMMIT")
    await cursor.execute("BEGIN")


async def charge_over_an_error(cursor: AsyncCursor[Any], effect: EffectRecord) -> Any:
    await charge(cursor, effect)
    try:
        await cursor.execute("SELECT 1 / 0")
    except Error:
        return {"fine": True}


async def charge_then(cursor: AsyncCursor[Any], effect: EffectRecord) -> Any:
    """Write one charge, then run the statement that the effect names."""
    written = await charge(cursor, effect)
    await cursor.execute(effect.request.arguments["then"].encode())
    return written


async def as_the_application(cursor: AsyncCursor[Any], effect: EffectRecord) -> Any:
    await cursor.execute("SELECT current_user, current_setting('search_path') AS path")
    return await cursor.fetchone()


def not_async(cursor: AsyncCursor[Any], effect: EffectRecord) -> Any:
    raise AssertionError("never called")
