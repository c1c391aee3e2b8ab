"""Whoever deploys the functions never has to think of the ledger's upkeep."""

from __future__ import annotations

import psycopg
import pytest

from tests.integration.functions.invoking import SWEEP, Lambdas

MONTHS = (
    "SELECT to_regclass('effect_broker.effect_receipts_' || to_char("
    "now() AT TIME ZONE 'UTC' + make_interval(months => n), 'YYYY_MM')) IS NOT NULL"
    " FROM generate_series(0, 3) n"
)
LAST_MONTH_GOES = (
    "DO $$ DECLARE t text; BEGIN"
    " FOREACH t IN ARRAY effect_broker.partitioned_tables() LOOP"
    "  EXECUTE 'DROP TABLE effect_broker.' || t || to_char("
    "   now() AT TIME ZONE 'UTC' + interval '3 months', '_YYYY_MM');"
    " END LOOP; END $$"
)


def test_sweep_makes_partitions_and_forgets_fences_as_the_application(
    lambdas: Lambdas,
    fresh_database: str,
    application_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("EFFECT_BROKER_DATABASE_URL", application_url)
    with psycopg.connect(fresh_database, autocommit=True) as connection:
        connection.execute(LAST_MONTH_GOES)
        connection.execute(
            "INSERT INTO effect_broker.claim_fences"
            " SELECT gen_random_uuid(), false, now() - interval '2 days'"
            " FROM generate_series(1, 700)"
        )
        assert connection.execute(MONTHS).fetchall()[-1] == (False,)
        lambdas.invoke("reconcile", SWEEP)
        assert connection.execute(MONTHS).fetchall() == [(True,)] * 4
        count = "SELECT count(*) FROM effect_broker.claim_fences"
        assert connection.execute(count).fetchone() == (0,)
