"""Alembic's entry: runs on the connection that `ledger.migrate` opened, or prints SQL.

The version table lies in the ledger's own schema, which is therefore made here.
"""

from __future__ import annotations

from alembic import context

SCHEMA = "CREATE SCHEMA IF NOT EXISTS effect_broker"
VERSIONS = {"version_table": "schema_revision", "version_table_schema": "effect_broker"}


def run_offline() -> None:
    context.configure(dialect_name="postgresql", literal_binds=True, **VERSIONS)
    with context.begin_transaction():
        context.get_context().impl.static_output(f"{SCHEMA};")
        context.run_migrations()


def run_online() -> None:
    connection = context.config.attributes["connection"]
    context.configure(connection=connection, **VERSIONS)
    with context.begin_transaction():
        connection.exec_driver_sql(SCHEMA)
        context.run_migrations()


if context.is_offline_mode():
    run_offline()
else:
    run_online()
