"""What the database refuses, whoever asks."""

from __future__ import annotations

from collections.abc import AsyncIterator

import psycopg
import pytest
import pytest_asyncio
from psycopg import errors

from effect_broker.domain.attempt import EndingKind
from effect_broker.ids import uuid7
from effect_broker.ledger.connection import Connections
from tests.conformance.ledgers import S, Store, lost, postgres_store, succeeded
from tests.conformance.test_ledger_evidence import late
from tests.guarantees import guarantee

IMMUTABLE = (
    "effect_keys",
    "effect_intents",
    "effect_attempts",
    "effect_attempt_endings",
    "effect_key_generations",
    "effect_events",
    "effect_receipts",
    "effect_compensations",
    "effect_resolutions",
    "effect_contradictions",
    "contracts",
)


@pytest_asyncio.fixture
async def app(application_url: str, fresh_database: str) -> AsyncIterator[Store]:
    """Yield a store that works as the application's role."""
    connections = Connections(application_url)
    app = postgres_store(fresh_database, connections)
    await app.open()
    yield app
    await connections.close()


async def test_the_application_role_does_all_the_work(app: Store) -> None:
    claim = await app.dispatching()
    await app.ledger.record([lost(claim)])
    held = await app.reconciling(claim.work.effect_id)
    await app.ledger.renew(held.token, [held.work.effect_id], held.lease_until - held.now)
    await app.ledger.record([succeeded(held)])
    assert await app.status(claim.work.effect_id) is S.SUCCEEDED
    assert await app.ledger.attempts(app.tenant_id, claim.work.effect_id)
    assert await app.ledger.unknown_summary() == []
    await app.ledger.hold_dispatch("because")
    assert await app.ledger.release_dispatch("operator")


@guarantee("history-is-immutable")
@pytest.mark.parametrize(
    "statement",
    [
        *(f"UPDATE effect_broker.{table} SET {{column}} = NULL" for table in IMMUTABLE),
        *(f"DELETE FROM effect_broker.{table}" for table in IMMUTABLE),
        *(f"TRUNCATE effect_broker.{table}" for table in IMMUTABLE),
        "INSERT INTO effect_broker.effect_keys VALUES (gen_random_uuid(), '', NULL)",
        "UPDATE effect_broker.effect_work SET due_at = now()",
        "DELETE FROM effect_broker.effect_work",
        "UPDATE effect_broker.ledger_control SET dispatch_held = false",
        "UPDATE effect_broker.tenants SET disabled_at = NULL",
        "DELETE FROM effect_broker.claim_fences",
        "CREATE TABLE effect_broker.mine (n int)",
        "CREATE TABLE public.mine (n int)",
        "DROP TABLE effect_broker.effect_events",
        "ALTER TABLE effect_broker.effect_events DISABLE TRIGGER ALL",
        "ALTER TABLE effect_broker.effect_events ADD COLUMN n int",
        "CREATE FUNCTION effect_broker.mine() RETURNS int LANGUAGE sql AS 'SELECT 1'",
        "SET ROLE effect_broker_owner",
        "SELECT effect_broker.store_event(gen_random_uuid(), 1, now(), 'OutcomeLost',"
        " NULL, 'prepared', 'a', '{}', '')",
    ],
)
def test_the_application_role_can_neither_change_history_nor_the_schema(
    application_url: str, statement: str
) -> None:
    table = statement.split("effect_broker.")[-1].split()[0]
    with psycopg.connect(application_url) as connection:
        column = connection.execute(
            "SELECT attname FROM pg_attribute WHERE attrelid = to_regclass(%s)"
            " AND attnum > 0 ORDER BY attnum DESC LIMIT 1",
            [f"effect_broker.{table}"],
        ).fetchone()
        name = column[0] if column else ""
        with pytest.raises(errors.InsufficientPrivilege):
            connection.execute(statement.replace("{column}", name).encode())


@guarantee("history-is-immutable")
@pytest.mark.parametrize("table", IMMUTABLE)
async def test_even_the_owner_changes_no_row_of_history(
    store: Store, fresh_database: str, table: str
) -> None:
    claim = await store.dispatching()
    await store.ledger.record([succeeded(claim)])
    with psycopg.connect(fresh_database, autocommit=True) as connection:
        _one_row_of_what_few_effects_have(connection, store)
        column = connection.execute(
            "SELECT attname FROM pg_attribute WHERE attrelid = to_regclass(%s)"
            " AND atttypid = ANY (ARRAY['timestamptz'::regtype, 'uuid'::regtype])"
            " AND attnum > 0 ORDER BY attnum DESC LIMIT 1",
            [f"effect_broker.{table}"],
        ).fetchone()
        assert column is not None
        change = f"UPDATE effect_broker.{table} SET {column[0]} = NULL"
        for statement in (
            change,
            f"DELETE FROM effect_broker.{table}",
            f"TRUNCATE effect_broker.{table} CASCADE",
        ):
            with pytest.raises(psycopg.Error) as caught:
                connection.execute(statement.encode())
            assert caught.value.sqlstate == "EB001", statement


async def test_a_payload_may_be_sealed_anew_or_pruned_and_nothing_else(
    store: Store, fresh_database: str
) -> None:
    claim = await store.dispatching()
    await store.ledger.record([succeeded(claim)])
    with psycopg.connect(fresh_database, autocommit=True) as connection:
        for statement in (
            "UPDATE effect_broker.effect_intents SET arguments_ciphertext = 'anew',"
            " data_key_id = 'k2'",
            "UPDATE effect_broker.effect_receipts SET result_ciphertext = NULL",
        ):
            assert connection.execute(statement.encode()).rowcount == 1
        with pytest.raises(psycopg.Error) as caught:
            connection.execute(
                "UPDATE effect_broker.effect_intents SET arguments_ciphertext = NULL,"
                " request_hash = sha256('')"
            )
        assert caught.value.sqlstate == "EB001"


@guarantee("proof-of-commit-blocks")
@pytest.mark.parametrize(
    "change",
    [
        "proof_committed = false, lane = 0",
        "status = 'retryable'",
        "status = 'dispatching', lane = 2, claim_token = gen_random_uuid(), unproven = 1",
    ],
)
async def test_no_path_sends_again_against_proof_of_commit(
    store: Store, fresh_database: str, change: str
) -> None:
    claim = await store.dispatching()
    await store.lapse(claim)
    await late(store, claim, EndingKind.COMMITTED)
    with psycopg.connect(fresh_database, autocommit=True) as connection:
        with pytest.raises(psycopg.Error) as caught:
            connection.execute(f"UPDATE effect_broker.effect_work SET {change}".encode())
        assert caught.value.sqlstate == "EB002"
        with pytest.raises(psycopg.Error) as caught:
            connection.execute(
                "INSERT INTO effect_broker.effect_receipts SELECT effect_id, tenant_id,"
                " gen_random_uuid(), now(), NULL, 'failed_final', contract_id, 'ledger',"
                " '', NULL, NULL, '{}', NULL, '', '', NULL FROM effect_broker.effect_work"
            )
        assert caught.value.sqlstate == "EB003"


@pytest.mark.parametrize(
    "change",
    [
        "due_at = NULL",
        "due_at = 'infinity'",
        "claim_token = NULL",
        "status = 'succeeded'",
        "status = 'prepared'",
        "lane = 0",
        "unproven = 2",
        "unproven = 0",
        "proven_through = 1",
        "attempts = 0",
        "settlement_at = NULL",
        "rejections = -1",
        "head = 'short'",
        "status = 'outcome_unknown', lane = 1, claim_token = NULL",
        "status = 'reconciling'",
    ],
)
async def test_an_impossible_row_is_impossible(
    store: Store, fresh_database: str, change: str
) -> None:
    await store.dispatching()
    with (
        psycopg.connect(fresh_database) as connection,
        pytest.raises((errors.CheckViolation, errors.NotNullViolation)),
    ):
        connection.execute(f"UPDATE effect_broker.effect_work SET {change}".encode())


async def test_a_tenant_is_checked_inside_every_step(
    store: Store, fresh_database: str
) -> None:
    """Nothing of a reservation stays when its tenant is unknown, also without a key."""
    stranger = store.intent(tenant_id=uuid7())
    with pytest.raises(Exception, match="unknown or disabled"):
        await store.reserve(stranger)
    with psycopg.connect(fresh_database) as connection:
        for table in ("effect_keys", "effect_intents", "effect_work", "effect_events"):
            found = connection.execute(
                f"SELECT count(*) FROM effect_broker.{table}".encode()
            ).fetchone()
            assert found == (0,)


def _one_row_of_what_few_effects_have(
    connection: psycopg.Connection, store: Store
) -> None:
    for statement in (
        "INSERT INTO effect_broker.effect_compensations SELECT gen_random_uuid(),"
        " %(tenant_id)s, gen_random_uuid(), 'a', '', 'k1', now()",
        "INSERT INTO effect_broker.effect_contradictions SELECT gen_random_uuid(), 1,"
        " %(tenant_id)s, now()",
        "INSERT INTO effect_broker.effect_resolutions SELECT gen_random_uuid(), 'd',"
        " 'failed', 'a', NULL, now(), 1, '', 'k1'",
        "INSERT INTO effect_broker.effect_key_generations SELECT gen_random_uuid(), 2,"
        " now(), 'k'",
    ):
        connection.execute(statement.encode(), {"tenant_id": store.tenant_id})


def test_every_text_has_a_limit(database_url: str) -> None:
    """A column has its length in its type, its domain or a CHECK, or it is an enum's."""
    with psycopg.connect(database_url) as connection:
        found = connection.execute(
            "SELECT c.relname || '.' || a.attname"
            " FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid"
            " WHERE c.relnamespace = 'effect_broker'::regnamespace"
            "  AND c.relkind IN ('r', 'p') AND NOT c.relispartition"
            "  AND a.attnum > 0 AND NOT a.attisdropped"
            "  AND a.atttypid = ANY (ARRAY['text', 'varchar']::regtype[])"
            "  AND a.atttypmod = -1 AND NOT EXISTS ("
            "   SELECT FROM pg_constraint k WHERE k.conrelid = c.oid AND k.contype = 'c'"
            "    AND a.attnum = ANY (k.conkey) AND pg_get_constraintdef(k.oid)"
            "    ~ ('length\\(' || a.attname || '|' || a.attname || ' (= ANY|~)'))"
        ).fetchall()
    assert [name for (name,) in found] == []
