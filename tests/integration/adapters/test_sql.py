"""A mutation of the ledger's own database: done with its receipt, or not at all."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import psycopg
import pytest
import pytest_asyncio
from psycopg import errors

from effect_broker.adapters.sql import (
    MutationRefused,
    SqlAdapter,
    SqlAdapters,
    plain,
)
from effect_broker.adapters.wire.gate import SEND_DEADLINE_PASSED
from effect_broker.domain.errors import ContractInvalid, PayloadDrift
from effect_broker.domain.outcome import NotSent, ProbeStatus, Rejected
from effect_broker.domain.status import EffectStatus
from effect_broker.ids import uuid7
from tests.guarantees import guarantee
from tests.integration.adapters.given import ManualClock, effect
from tests.integration.adapters.sql_world import (
    STATEMENT,
    SqlWorld,
    sql_contract,
    sql_world,
)


@pytest_asyncio.fixture
async def world(fresh_database: str) -> AsyncIterator[SqlWorld]:
    async with sql_world(fresh_database) as made:
        yield made


def declared(statement: str = STATEMENT, **terms: Any) -> Any:
    return sql_contract(sql={"statement": statement, **terms})


@guarantee("transactional-exactly-one")
@pytest.mark.parametrize(
    "contract",
    [
        pytest.param(sql_contract(), id="function"),
        pytest.param(declared(external_id="id"), id="statement"),
    ],
)
async def test_mutation_and_receipt_are_one_commit(
    world: SqlWorld, contract: Any
) -> None:
    await world.start(contract)
    charged = await world.charge()
    report = await world.sql_dispatcher().run_once()
    assert (report.attempts, report.recorded) == (1, 1)
    assert await world.status(charged.effect_id) is EffectStatus.SUCCEEDED
    assert await world.charges() == 1
    receipt = await world.receipt(charged.effect_id)
    assert receipt["external_id"] == "1"
    assert receipt["output"] == {"id": 1, "amount": 100}
    written = await _xmins(world, charged.effect_id)
    assert len(set(written)) == 1


async def _xmins(world: SqlWorld, effect_id: Any) -> list[str]:
    """Return which transactions wrote the charge, the receipt, the event, the ending."""
    query = """
        SELECT xmin::text FROM public.charges
        UNION ALL SELECT xmin::text FROM effect_broker.effect_receipts
        UNION ALL SELECT xmin::text FROM effect_broker.effect_attempt_endings
        UNION ALL SELECT xmin::text FROM effect_broker.effect_events
            WHERE type = 'ReceiptRecorded'
    """
    async with await psycopg.AsyncConnection.connect(world.url) as connection:
        found = await (await connection.execute(query)).fetchall()
    assert len(found) == 4
    return [row[0] for row in found]


async def test_same_key_again_is_a_replay_and_other_arguments_are_drift(
    world: SqlWorld,
) -> None:
    await world.start(sql_contract())
    first = await world.charge()
    await world.sql_dispatcher().run_once()
    again = await world.charge()
    assert again.effect_id == first.effect_id
    with pytest.raises(PayloadDrift):
        await world.charge(amount=101)
    await world.recover()
    assert await world.charges() == 1


THEN = {
    "unique_violation": (
        "INSERT INTO charges (id, operation_key, amount)"
        " OVERRIDING SYSTEM VALUE VALUES (1, 'x', 1)",
        "sqlstate_23505",
    ),
    "check_violation": ("UPDATE charges SET amount = -1", "sqlstate_23514"),
    "division_by_zero": ("SELECT 1 / 0", "sqlstate_22012"),
    "raised": (
        "DO $$ BEGIN RAISE EXCEPTION 'no such account'; END $$",
        "sqlstate_P0001",
    ),
    "deferred constraint": (
        "INSERT INTO children (parent) VALUES (42)",
        "sqlstate_23503",
    ),
}


@guarantee("transactional-exactly-one")
@pytest.mark.parametrize(("statement", "reason"), THEN.values(), ids=THEN)
async def test_refusal_by_data_or_constraint_is_final_and_leaves_nothing(
    world: SqlWorld, statement: str, reason: str
) -> None:
    await world.start(sql_contract("charge_then"))
    async with await psycopg.AsyncConnection.connect(world.url) as connection:
        await connection.execute(
            "CREATE TABLE children (parent integer REFERENCES charges"
            " DEFERRABLE INITIALLY DEFERRED)"
        )
    charged = await world.charge(then=statement)
    await world.sql_dispatcher().run_once()
    assert await world.status(charged.effect_id) is EffectStatus.FAILED_FINAL
    assert (await world.receipt(charged.effect_id))["reason"] == reason
    assert await world.charges() == 0


async def test_function_that_refuses_ends_the_effect_and_leaves_nothing(
    world: SqlWorld,
) -> None:
    await world.start(sql_contract("charge_and_refuse"))
    charged = await world.charge()
    await world.sql_dispatcher().run_once()
    assert (await world.receipt(charged.effect_id))["reason"] == "account_closed"
    assert await world.charges() == 0


@pytest.mark.parametrize("statement", ["serialization_failure", "deadlock_detected"])
async def test_what_the_database_could_not_do_now_is_done_later(
    world: SqlWorld, statement: str
) -> None:
    raising = f"DO $$ BEGIN RAISE {statement}; END $$"
    await world.start(sql_contract("charge_then", retry_limit=0))
    charged = await world.charge(then=raising)
    await world.sql_dispatcher().run_once()
    assert await world.status(charged.effect_id) is EffectStatus.RETRYABLE
    assert "AttemptNotExecuted" in await world.events(charged.effect_id)
    assert await world.charges() == 0


async def test_function_that_breaks_is_tried_again_within_its_limit(
    world: SqlWorld,
) -> None:
    await world.start(sql_contract("charge_and_break", retry_limit=1))
    charged = await world.charge()
    await world.sql_dispatcher().run_once()
    assert await world.status(charged.effect_id) is EffectStatus.RETRYABLE
    await world.recover()
    assert await world.status(charged.effect_id) is EffectStatus.FAILED_FINAL
    receipt = await world.receipt(charged.effect_id)
    assert receipt["reason"] == "mutation_raised:KeyError"
    assert await world.charges() == 0


@pytest.mark.parametrize("function", ["charge_and_commit", "charge_and_begin_anew"])
async def test_function_that_ends_the_transaction_goes_to_review(
    world: SqlWorld, function: str
) -> None:
    await world.start(sql_contract(function))
    charged = await world.charge()
    await world.sql_dispatcher().run_once()
    assert await world.status(charged.effect_id) is EffectStatus.MANUAL_REVIEW
    await world.recover()
    assert await world.charges() == 1


async def test_error_that_a_function_passes_over_commits_nothing(
    world: SqlWorld,
) -> None:
    await world.start(sql_contract("charge_over_an_error", retry_limit=0))
    charged = await world.charge()
    await world.sql_dispatcher().run_once()
    assert await world.status(charged.effect_id) is EffectStatus.FAILED_FINAL
    assert await world.charges() == 0


async def test_statement_that_changes_no_row_is_refused(world: SqlWorld) -> None:
    statement = "UPDATE charges SET amount = %(amount)s WHERE operation_key = 'other'"
    await world.start(declared(statement))
    charged = await world.charge()
    await world.sql_dispatcher().run_once()
    assert await world.status(charged.effect_id) is EffectStatus.FAILED_FINAL
    assert (await world.receipt(charged.effect_id))["reason"] == "no_row_changed"


async def test_argument_left_out_is_null_and_a_nested_one_is_json(
    world: SqlWorld,
) -> None:
    properties = {
        "amount": {"type": "integer"},
        "note": {"type": "string"},
        "tags": {"type": "array"},
    }
    statement = (
        "SELECT %(note)s::text AS note, %(tags)s::jsonb AS tags,"
        " %(effect_id)s::uuid AS effect, 100 %% 7 AS rest"
    )
    await world.start(
        sql_contract(
            sql={"statement": statement},
            arguments={"type": "object", "properties": properties},
        )
    )
    charged = await world.charge(tags=[{"a": 1}])
    await world.sql_dispatcher().run_once()
    output = (await world.receipt(charged.effect_id))["output"]
    assert output == {
        "note": None,
        "tags": [{"a": 1}],
        "effect": str(charged.effect_id),
        "rest": 2,
    }


@pytest_asyncio.fixture
async def as_application(
    fresh_database: str, application_url: str
) -> AsyncIterator[SqlWorld]:
    """Yield a world that has the rights of the deployed broker, and no more."""
    async with sql_world(fresh_database, through=application_url) as made:
        yield made


async def test_mutation_runs_with_the_rights_and_path_of_the_application(
    as_application: SqlWorld,
) -> None:
    world = await as_application.start(sql_contract("as_the_application"))
    charged = await world.charge()
    await world.sql_dispatcher().run_once()
    output = (await world.receipt(charged.effect_id))["output"]
    assert output == {"current_user": "effect_broker_app", "path": '"$user", public'}


async def test_table_that_the_application_may_not_write_is_not_written(
    as_application: SqlWorld,
) -> None:
    world = await as_application.start(sql_contract(retry_limit=0))
    charged = await world.charge()
    await world.sql_dispatcher().run_once()
    assert (await world.receipt(charged.effect_id))["reason"] == "sqlstate_42501"
    assert await world.charges() == 0


async def test_output_outside_its_schema_is_flagged_and_never_fails(
    world: SqlWorld,
) -> None:
    await world.start(sql_contract(output={"type": "object", "required": ["missing"]}))
    charged = await world.charge()
    await world.sql_dispatcher().run_once()
    assert await world.status(charged.effect_id) is EffectStatus.SUCCEEDED
    receipt = await world.receipt(charged.effect_id)
    assert receipt["flags"] == ["output_schema_mismatch"]


@pytest.mark.parametrize(
    ("contract", "why"),
    [
        (declared("SELECT %(nobody)s"), "nobody"),
        (
            sql_contract(
                sql={"statement": "SELECT 1"},
                arguments={"type": "object", "properties": {"tenant_id": {}}},
            ),
            "tenant_id",
        ),
        (sql_contract("not_async"), "not an async function"),
        (sql_contract("missing"), "cannot be imported"),
        (sql_contract(sql={"function": "no.such.module:f"}), "cannot be imported"),
    ],
)
async def test_contract_that_cannot_be_run_here_is_not_served(
    contract: Any, why: str
) -> None:
    with pytest.raises(ContractInvalid, match=why):
        await SqlAdapters(ManualClock()).scope_digest(contract)


async def _adapter(seconds: float, scope: bytes | None = None) -> SqlAdapter:
    clock = ManualClock()
    contract = sql_contract()
    source = SqlAdapters(clock)
    made = await source.adapter(
        contract,
        scope_digest=scope or await source.scope_digest(contract),
        deadline=clock.deadline_in(seconds),
    )
    assert isinstance(made, SqlAdapter)
    return made


async def test_mutation_past_its_deadline_is_not_made() -> None:
    adapter = await _adapter(-1)
    mutation = adapter.mutation(effect(adapter.contract))
    with pytest.raises(Exception, match=SEND_DEADLINE_PASSED) as late:
        await mutation.apply(None)  # type: ignore[arg-type]
    assert isinstance(mutation.refused(late.value), NotSent)


async def test_outside_the_ledgers_transaction_nothing_is_done_or_known() -> None:
    adapter = await _adapter(10)
    record = effect(adapter.contract)
    outcome = await adapter.dispatch(record, attempt_id=uuid7())
    assert isinstance(outcome, NotSent)
    assert (await adapter.probe(record)).status is ProbeStatus.UNKNOWN


FINAL = {"22", "23"}
LATER = {"40", "53", "57", "25006", "25P03", "25P04", "55P03"}
CODES = sorted(
    {
        kind.sqlstate: kind
        for kind in vars(errors).values()
        if isinstance(kind, type)
        and issubclass(kind, psycopg.Error)
        and kind.sqlstate is not None
    }.items()
)


@pytest.mark.parametrize(("code", "kind"), CODES)
async def test_every_error_of_the_database_proves_that_nothing_was_done(
    code: str, kind: type[psycopg.Error]
) -> None:
    mutation = (await _adapter(10)).mutation(effect(sql_contract()))
    told = mutation.refused(kind())
    assert isinstance(told, Rejected)
    assert told.final == (code[:2] in FINAL or code == "P0001")
    assert told.not_executed == (code in LATER or code[:2] in LATER)
    assert not told.from_key_record


async def test_word_of_a_function_is_kept_as_the_reason() -> None:
    mutation = (await _adapter(10)).mutation(effect(sql_contract()))
    told = mutation.refused(MutationRefused("account_closed"))
    assert isinstance(told, Rejected)
    assert (told.reason, told.final) == ("account_closed", True)


def test_outputs_become_json() -> None:
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    given = {"a": Decimal("1.10"), "b": moment, 3: [b"\x01", (1.5, float("inf"))]}
    assert plain(given) == {
        "a": "1.10",
        "b": "2026-01-01T00:00:00+00:00",
        "3": ["01", [1.5, "inf"]],
    }
    with pytest.raises(TypeError):
        plain(object())
