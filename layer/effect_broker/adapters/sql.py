"""Mutations of the ledger's own database: a declared statement, or a registered function.

Both run in the transaction that records them, with the rights and the search path of the
application's role. A function is `async (cursor, effect) -> output`; it neither commits
nor rolls back, and refuses by raising `MutationRefused`.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from importlib import import_module
from inspect import iscoroutinefunction
from math import isfinite
from typing import Any, Final, cast
from uuid import UUID

import psycopg
from psycopg import AsyncCursor
from psycopg.types.json import Jsonb

from effect_broker.adapters.http_target import digest_of
from effect_broker.adapters.output import schema_flags
from effect_broker.adapters.wire.gate import NothingSent, SendGate, unsent
from effect_broker.domain.contract import EffectContract, SqlTerms
from effect_broker.domain.errors import ContractInvalid
from effect_broker.domain.intent import EffectRecord
from effect_broker.domain.outcome import (
    Committed,
    NotSent,
    Outcome,
    ProbeResult,
    ProbeStatus,
    Rejected,
)
from effect_broker.ports import Clock, Deadline, TargetAdapter

Function = Callable[[AsyncCursor[Any], EffectRecord], Awaitable[Any]]

OWN_PARAMETERS: Final = frozenset(
    {"effect_id", "tenant_id", "operation_key", "downstream_key"}
)
"""Parameters that the broker fills; no argument may have such a name."""

ROWS_MAX: Final = 1_000
"""An output is a receipt's, not a report's."""

_PLACEHOLDER: Final = re.compile(r"%(?:%|\((?P<name>[^)]*)\)s)")

_REFUSES: Final = ("22", "23", "P0001")
"""Data, a constraint, or a function of the database that raises: refused for good."""

_NOT_NOW: Final = ("40", "53", "57", "25006", "25P03", "25P04", "55P03")
"""The database could not do it this time: serialization and deadlocks, resources, an
operator's hand, a standby, its timeouts, a lock.
"""


class MutationRefused(Exception):
    """Raised by a registered function: the effect is refused, for good.

    `reason` is stored and shown; it must not repeat an argument.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class SqlAdapters:
    """Builds adapters onto the ledger's own database."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    async def scope_digest(self, contract: EffectContract) -> bytes:
        """Digest the one target there is.

        Raises:
            ContractInvalid: the statement or the function cannot be run here.
        """
        _checked(contract)
        return digest_of("sql", contract.name)

    async def adapter(
        self,
        contract: EffectContract,
        *,
        scope_digest: bytes,
        deadline: Deadline | None,
    ) -> TargetAdapter:
        """Make an adapter for one attempt.

        Raises:
            ContractInvalid: the statement or the function cannot be run here.
        """
        gate = SendGate(
            self._clock,
            deadline,
            scope=await self.scope_digest(contract),
            expected_scope=scope_digest,
        )
        return SqlAdapter(contract, _checked(contract), gate)


class SqlAdapter:
    """Speaks for one contract; the ledger runs its mutation."""

    def __init__(self, contract: EffectContract, apply: Function, gate: SendGate) -> None:
        self._contract = contract
        self._apply = apply
        self._gate = gate

    @property
    def contract(self) -> EffectContract:
        """The contract this adapter speaks for."""
        return self._contract

    def mutation(self, effect: EffectRecord) -> SqlMutation:
        """Return the effect's mutation."""
        return SqlMutation(effect, self._apply, self._gate)

    async def dispatch(self, effect: EffectRecord, *, attempt_id: UUID) -> Outcome:
        """Do nothing: outside the ledger's transaction a mutation proves nothing."""
        return NotSent("outside_the_ledgers_transaction")

    async def probe(self, effect: EffectRecord) -> ProbeResult:
        """Know nothing: the ledger itself is the lookup."""
        return ProbeResult(ProbeStatus.UNKNOWN, evidence={"failure": "no_lookup"})


@dataclass(frozen=True, slots=True)
class SqlMutation:
    """One effect's mutation, until one deadline."""

    effect: EffectRecord
    function: Function
    gate: SendGate

    def seconds_left(self) -> float | None:
        """Return the time to the attempt's deadline."""
        left = self.gate.seconds_left()
        return None if left == float("inf") else left

    async def apply(self, cursor: AsyncCursor[Any]) -> Committed:
        """Run the statement or the function.

        Raises:
            NothingSent: too late, or another target.
            MutationRefused: the effect is refused.
            psycopg.Error: the database refused or failed.
        """
        self.gate.permit()
        given = await self.function(cursor, self.effect)
        if isinstance(given, Committed):
            return given
        output = plain(given)
        terms = self.effect.contract.sql
        name = terms.external_id if terms is not None else None
        found = output.get(name) if isinstance(output, dict) and name else None
        return Committed(
            external_id=None if found is None else str(found),
            output=output,
            flags=schema_flags(self.effect.contract, output),
        )

    def refused(self, error: BaseException) -> Outcome:
        """Say what an error proves whose transaction was rolled back: nothing was done.

        Data, constraints, a function of the database and `MutationRefused` refuse for
        good. What the database was not able to do this time is not executed. All else is
        a defect of the mutation, and is tried again within `retry_limit`.
        """
        match error:
            case NothingSent():
                return unsent(error.reason)
            case MutationRefused():
                return Rejected(error.reason, final=True, evidence=_NOTHING_DONE)
            case psycopg.Error():
                return _refused_by_database(error)
            case _:
                reason = f"mutation_raised:{type(error).__name__}"
                return Rejected(reason, evidence=_NOTHING_DONE)


_NOTHING_DONE: Final = {"rolled_back": True, "bytes_may_have_left": False}


def _refused_by_database(error: psycopg.Error) -> Rejected:
    code = error.sqlstate or ""
    evidence: dict[str, Any] = {**_NOTHING_DONE, "sqlstate": code}
    if error.diag.constraint_name:
        evidence["constraint"] = error.diag.constraint_name
    reason = f"sqlstate_{code}" if code else f"database_raised:{type(error).__name__}"
    return Rejected(
        reason,
        final=code.startswith(_REFUSES),
        not_executed=code.startswith(_NOT_NOW),
        evidence=evidence,
    )


def plain(value: Any) -> Any:
    """Return what a mutation gave as plain JSON values; numbers of the database that JSON
    cannot hold exactly, instants and identifiers become text, bytes hexadecimal text.

    Raises:
        TypeError: there is no such form of it.
    """
    match value:
        case float() if not isfinite(value):
            return str(value)
        case None | bool() | int() | float() | str():
            return value
        case Decimal() | UUID():
            return str(value)
        case bytes():
            return value.hex()
        case datetime() | date() | time():
            return value.isoformat()
        case Mapping():
            return {str(key): plain(item) for key, item in value.items()}
        case list() | tuple():
            return [plain(item) for item in value]
        case _:
            raise TypeError(f"{type(value).__name__} has no place in an output")


def _checked(contract: EffectContract) -> Function:
    """Return what runs the contract's mutation.

    Raises:
        ContractInvalid: it cannot be run here.
    """
    terms = contract.sql
    if terms is None:
        raise _invalid(contract, "sql is missing")
    if terms.function is not None:
        return _imported(contract, terms.function)
    declared = frozenset(contract.arguments.get("properties", {}))
    if taken := declared & OWN_PARAMETERS:
        raise _invalid(contract, f"the broker itself fills {', '.join(sorted(taken))}")
    assert terms.statement is not None
    used = {m["name"] for m in _PLACEHOLDER.finditer(terms.statement)} - {None}
    if unknown := used - declared - OWN_PARAMETERS:
        raise _invalid(contract, f"arguments declares no {', '.join(sorted(unknown))}")
    return _statement(terms, declared)


def _imported(contract: EffectContract, path: str) -> Function:
    module, _, name = path.partition(":")
    try:
        found: Any = getattr(import_module(module), name)
    except (ImportError, AttributeError):
        raise _invalid(contract, f"{path} cannot be imported here") from None
    if not iscoroutinefunction(found):
        raise _invalid(contract, f"{path} is not an async function")
    return cast(Function, found)


def _statement(terms: SqlTerms, declared: frozenset[str]) -> Function:
    async def run(cursor: AsyncCursor[Any], effect: EffectRecord) -> Any:
        assert terms.statement is not None
        await cursor.execute(terms.statement.encode(), _parameters(effect, declared))
        if cursor.rowcount == 0:
            raise MutationRefused("no_row_changed")
        if cursor.description is None:
            return {"rows_changed": cursor.rowcount}
        found = await cursor.fetchmany(ROWS_MAX)
        return found[0] if len(found) == 1 else {"rows": found}

    return run


def _parameters(effect: EffectRecord, declared: frozenset[str]) -> dict[str, Any]:
    """Fill the placeholders; a declared argument that was not given is NULL."""
    given = {
        name: Jsonb(_unfrozen(value))
        if isinstance(value, Mapping | list | tuple)
        else value
        for name, value in effect.request.arguments.items()
    }
    return {
        **dict.fromkeys(declared),
        **given,
        "effect_id": effect.effect_id,
        "tenant_id": effect.tenant_id,
        "operation_key": effect.request.operation_key,
        "downstream_key": effect.downstream_key,
    }


def _unfrozen(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _unfrozen(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_unfrozen(item) for item in value]
    return value


def _invalid(contract: EffectContract, why: str) -> ContractInvalid:
    return ContractInvalid(f"{contract.name} {contract.version}: {why}.")
