"""DBOS: a workflow of one step, which passes a key made of its workflow and step on. The
variant `retries` sets `retries_allowed`, which is off by default. A restarted program
recovers its workflows as it is launched.
"""

from __future__ import annotations

import logging
from typing import Any

from dbos import DBOS, DBOSConfig, SetWorkflowID  # type: ignore[import-not-found]

from examples.spike.systems.charging import Turn, main, told

VERSION = "spike"
"""Pinned: by default it is a hash of the workflows' code."""


def run(turn: Turn) -> tuple[str, str]:
    """Launch, which recovers, and ask for the workflow by its id."""
    config: DBOSConfig = {
        "name": "spike",
        "system_database_url": turn.store,
        "application_version": VERSION,
    }
    DBOS(config=config)
    logging.getLogger("dbos").setLevel(logging.CRITICAL)

    @DBOS.step(retries_allowed=turn.variant == "retries")  # type: ignore[untyped-decorator]
    def charge() -> dict[str, Any]:
        return turn.charge(f"{DBOS.workflow_id}:{DBOS.step_id}")

    @DBOS.workflow()  # type: ignore[untyped-decorator]
    def pay() -> dict[str, Any]:
        charged: dict[str, Any] = charge()
        return charged

    DBOS.launch()
    try:
        with SetWorkflowID(turn.order):
            handle = DBOS.start_workflow(pay)
        try:
            heard = f"succeeded: {handle.get_result()['id']}"
        except Exception as error:  # noqa: BLE001 - whatever the system tells its caller
            heard = told(error)
        return heard, str(handle.get_status().status)
    finally:
        DBOS.destroy()


if __name__ == "__main__":
    main(run)
