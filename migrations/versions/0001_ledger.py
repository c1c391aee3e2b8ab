"""The ledger in its final shape: tables, digests, guards, steps, roles.

The SQL stands beside this file and is sent as it is, so that offline mode prints exactly
what online mode runs.
"""

from __future__ import annotations

from pathlib import Path

from alembic import context, op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

SQL = Path(__file__).with_suffix("")


def upgrade() -> None:
    for file in sorted(SQL.glob("*.sql")):
        statements = file.read_text()
        if context.is_offline_mode():
            op.get_context().impl.static_output(statements)
        else:
            op.get_bind().execution_options(no_parameters=True).exec_driver_sql(
                statements
            )


def downgrade() -> None:
    raise NotImplementedError(
        "The ledger is never taken down by a migration: its rows are the only authority."
    )
