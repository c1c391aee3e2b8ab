"""A mutation, its receipt and its event in one commit of the ledger's own database.

The claim's row is locked before anything is done (the only safe order): from there on
nobody else can settle the effect, and a lost claim has done nothing.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

import psycopg
from psycopg import AsyncCursor, errors
from psycopg.pq import TransactionStatus
from psycopg.rows import dict_row

from effect_broker.domain.errors import LedgerUnavailable
from effect_broker.domain.outcome import (
    Ambiguous,
    Committed,
    NotSent,
    Outcome,
    Rejected,
)
from effect_broker.ids import uuid7
from effect_broker.ledger import rows
from effect_broker.ledger.composite import rows as composite_rows
from effect_broker.ledger.connection import Call, Connection, Connections, Row, is_broken
from effect_broker.ledger.queries import statements
from effect_broker.ports import (
    Claim,
    LocalMutation,
    Step,
    StepFor,
    StepResult,
    StepStatus,
    Transacted,
)

_SQL: Final = {**statements("transact"), **statements("effect_work")}


def _nothing_done(reason: str) -> Rejected:
    evidence = {"rolled_back": True, "bytes_may_have_left": False}
    return Rejected(reason, not_executed=True, evidence=evidence)


_BROKEN_OFF: Final = _nothing_done("connection_lost_before_commit")
_TIMED_OUT: Final = _nothing_done("timed_out_before_commit")
_LEDGER_REFUSED: Final = _nothing_done("ledger_refused")
_ABSENT: Final = _nothing_done("commit_failed")
_ENDED_BY_MUTATION: Final = Ambiguous(
    "mutation_ended_the_transaction", contract_violated=True
)


class _ClaimLost(Exception):
    """Somebody else settles the effect; nothing was done, and nothing will be."""


class _TransactionEnded(Exception):
    """The mutation committed or rolled back by itself."""


class _Raised(Exception):
    def __init__(self, error: BaseException) -> None:
        super().__init__(type(error).__name__)
        self.error = error


@dataclass(slots=True)
class _Going:
    """How far a transaction came; `done` stands once only its COMMIT is left."""

    receipt_id: UUID
    done: tuple[Committed, Step] | None = None


class PostgresTransactor:
    """`Transactor` on the ledger's connections, and with their role's rights."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    async def transact(
        self, claim: Claim, mutation: LocalMutation, step_for: StepFor
    ) -> Transacted | Outcome:
        """Run the mutation and record it in one commit, or say why nothing was done.

        Without COMMIT nothing is done, whatever went wrong: that is proof, and never
        ambiguity. An unknown COMMIT is settled here, by waiting for the lock that the old
        transaction holds until it ends.
        """
        going = _Going(uuid7())
        try:
            async with asyncio.timeout(mutation.seconds_left()):
                await self._run(claim, mutation, step_for, going)
        except _ClaimLost:
            return NotSent("claim_lost")
        except _TransactionEnded:
            return _ENDED_BY_MUTATION
        except _Raised as raised:
            return _refusal(mutation, raised.error)
        except LedgerUnavailable as error:
            return NotSent(error.code)
        except TimeoutError:
            return _TIMED_OUT if going.done is None else await self._settled(claim, going)
        except psycopg.Error as error:
            if going.done is None:
                return _BROKEN_OFF if is_broken(error) else _LEDGER_REFUSED
            if not is_broken(error):
                return mutation.refused(error)
            return await self._settled(claim, going)
        return _transacted(going)

    async def _run(
        self,
        claim: Claim,
        mutation: LocalMutation,
        step_for: StepFor,
        going: _Going,
    ) -> None:
        async with self._connections.lend() as connection, connection.transaction():
            (held,) = await _fetch(connection, "lock_claim", _names(claim)) or (None,)
            if held is None or held.proof_committed:
                raise _ClaimLost
            outcome = await _mutated(connection, mutation)
            (now,) = await _fetch(connection, "transaction_id", {})
            if now.transaction_id != held.transaction_id:
                raise _TransactionEnded
            step = step_for(outcome, rows.work(held), held.ledger_now)
            written = composite_rows([rows.finishing(step, going.receipt_id)])
            (finished,) = await _fetch(connection, "finish", {"steps": written})
            if finished.outcome != StepStatus.APPLIED:
                raise _ClaimLost
            going.done = outcome, step

    async def _settled(self, claim: Claim, going: _Going) -> Transacted | Outcome:
        """Settle an unknown COMMIT on a new connection to the writer.

        The lock is granted once the old transaction has ended. If the claim still stands
        then, it rolled back for good; else its receipt is there, or somebody else was
        faster and it did nothing.
        """
        names = _names(claim)
        own = {**names, "receipt_id": going.receipt_id}
        try:
            lock = Call(_SQL["lock_claim"], names)
            if await self._connections.fetch_again(lock):
                return _ABSENT
            if await self._connections.fetch_again(Call(_SQL["own_receipt"], own)):
                return _transacted(going)
        except LedgerUnavailable:
            return Ambiguous("commit_unknown")
        return NotSent("claim_lost")


async def _mutated(connection: Connection, mutation: LocalMutation) -> Committed:
    """Run the mutation in the transaction, which it must leave as it was.

    What it raises is kept apart from what the ledger raises.
    """
    async with connection.cursor(row_factory=dict_row) as cursor:
        task = asyncio.create_task(_applied(mutation, cursor))
        try:
            await asyncio.wait([task])
        finally:
            task.cancel()
            await asyncio.wait([task])
    if task.cancelled():
        raise _Raised(asyncio.CancelledError())
    if (error := task.exception()) is not None:
        raise _Raised(error)
    match connection.info.transaction_status:
        case TransactionStatus.INTRANS:
            return task.result()
        case TransactionStatus.IDLE:
            raise _TransactionEnded
        case _:
            raise _Raised(errors.InFailedSqlTransaction("an error was passed over"))


def _refusal(mutation: LocalMutation, error: BaseException) -> Outcome:
    if isinstance(error, psycopg.Error) and is_broken(error):
        return _BROKEN_OFF
    return mutation.refused(error)


async def _applied(mutation: LocalMutation, cursor: AsyncCursor[Any]) -> Committed:
    return await mutation.apply(cursor)


async def _fetch(
    connection: Connection, name: str, parameters: dict[str, Any]
) -> list[Row]:
    async with connection.cursor(binary=True) as cursor:
        await cursor.execute(_SQL[name], parameters)
        return await cursor.fetchall()


def _names(claim: Claim) -> dict[str, Any]:
    intent = claim.intent
    return {
        "effect_id": intent.effect_id,
        "tenant_id": intent.tenant_id,
        "token": claim.token,
    }


def _transacted(going: _Going) -> Transacted:
    assert going.done is not None
    outcome, step = going.done
    result = StepResult(step.effect_id, StepStatus.APPLIED, step.version + 1)
    return Transacted(outcome, step, result)
