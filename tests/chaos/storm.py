"""Workers and reconcilers with one configuration, killed at random: the storm, and what
must stand after it.

    python -m tests.chaos.storm --effects 500 --seconds 60

Real processes of the command line, a real PostgreSQL, the demo target as a process. Each
class is judged by its target's own table: one charge for each effect, at most one for
unsafe ones, and every effect settled, or unknown and listed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import psycopg

from effect_broker.contracts import load_contracts
from effect_broker.domain.intent import EffectRequest, Reservation
from effect_broker.domain.status import EffectStatus
from effect_broker.embedded import EmbeddedPostgres
from effect_broker.ports import EffectQuery, Tenant
from effect_broker.settings import Settings
from effect_broker.surfaces.admin import Administration
from effect_broker.telemetry import NullMeter
from effect_broker.wiring.core import Core
from effect_broker.wiring.sources import migrate
from examples.crash_matrix.target.client import RunningTarget, run_target
from tests.integration.broker.world import KEYRING

CLASSES: Final = ("keyed", "lookup", "plain", "local")
"""Idempotent, reconcilable, unsafe, transactional."""

PROCESSES: Final = ("worker", "worker", "reconciler", "reconciler")
CALM_SECONDS_MAX: Final = 60.0
"""By then every lease has ended, every bound has passed and every backoff was waited."""

APPLICATION: Final = """
CREATE TABLE public.charges (
    id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    operation_key text NOT NULL,
    amount integer NOT NULL
)
"""

_HTTP: Final = """
[[contracts]]
tool = "chaos.{world}"
name = "chaos-{world}"
version = "1"
safety = "{safety}"
adapter = "http"
attempt_timeout = "2s"
lease = "3s"
settlement_bound = "1s"
backoff = {{ initial = "200ms", factor = 1.5, max = "1s", jitter = 0.2 }}
redispatch_limit = 200
retry_limit = 200
{more}
[contracts.arguments]
type = "object"
[contracts.http]
url = "/{world}/charges"
base_url = {{ secret = "demo/base_url" }}
external_id = "/id"
allow_private = true
{key}
[contracts.http.meaning]
code = "/error/code"
"2xx" = "committed"
"409/idempotency_key_in_use" = "in_progress"
"409/idempotency_key_reuse" = "key_conflict"
{probe}
"""
_PROBE: Final = """
[contracts.probe]
url = "/lookup/charges?reference={downstream_key}"
consistency = "strong"
found = "/data/0"
external_id = "/data/0/id"
match = "/data/0/reference"
"""
_SQL: Final = """
[[contracts]]
tool = "chaos.local"
name = "chaos-local"
version = "1"
safety = "transactional"
adapter = "sql"
attempt_timeout = "2s"
lease = "3s"
backoff = { initial = "200ms", factor = 1.5, max = "1s", jitter = 0.2 }
redispatch_limit = 200
retry_limit = 200
[contracts.arguments]
type = "object"
[contracts.arguments.properties]
amount = { type = "integer" }
[contracts.sql]
statement = '''INSERT INTO public.charges (operation_key, amount)
    VALUES (%(operation_key)s, %(amount)s) RETURNING id'''
external_id = "id"
"""


def contracts() -> str:
    """Return one contract of each class, with short times."""
    keyed = _HTTP.format(
        world="keyed",
        safety="idempotent",
        more='key_retention = "24h"\nkey_records = "commits"',
        key='key_header = "Idempotency-Key"',
        probe="",
    )
    lookup = _HTTP.format(
        world="lookup",
        safety="reconcilable",
        more="",
        key='key_body = "/reference"',
        probe=_PROBE,
    )
    plain = _HTTP.format(world="plain", safety="unsafe", more="", key="", probe="")
    return keyed + lookup + plain + _SQL


@dataclass
class Storm:
    """One broker with its processes, and the judgement after they were killed."""

    url: str
    target: RunningTarget
    folder: Path
    seed: int
    tell: Callable[[str], None]
    kills: Counter[str] = field(default_factory=Counter)
    _running: dict[int, tuple[str, subprocess.Popen[bytes]]] = field(default_factory=dict)

    def run(self, effects: int, seconds: float) -> Mapping[str, Any]:
        """Submit, kill for a while, let it calm down, and judge; see `verdict`."""
        migrate(self._settings)
        self.target.settings(key_records="commits")
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(APPLICATION)
        asyncio.run(self._prepare())
        dice = random.Random(self.seed)
        try:
            for place, kind in enumerate(PROCESSES):
                self._start(place, kind)
            ends = time.monotonic() + seconds
            submitted = 0
            while (left := ends - time.monotonic()) > 0 or submitted < effects:
                share = 1.0 if left <= 0 else 1 - left / seconds
                wanted = min(effects, max(submitted + 1, int(effects * share * 1.3)))
                asyncio.run(self._submit(range(submitted, wanted)))
                submitted = max(submitted, wanted)
                self._lose_some(dice)
                time.sleep(dice.uniform(0.05, 0.4))
                self._kill_one(dice)
                self.tell(
                    f"{submitted}/{effects} effects, {sum(self.kills.values())} kills,"
                    f" {max(0.0, left):.0f} s left"
                )
            self._calm_down()
        finally:
            for _, process in self._running.values():
                process.kill()
                process.wait()
        return asyncio.run(self._verdict(effects))

    @property
    def _environment(self) -> dict[str, str]:
        return {
            "EFFECT_BROKER_DATABASE_URL": self.url,
            "EFFECT_BROKER_KEYRING": KEYRING,
            "EFFECT_BROKER_SECRET__DEMO__BASE_URL": self.target.url,
        }

    @property
    def _settings(self) -> Settings:
        return Settings.from_environment(self._environment)

    def _start(self, place: int, kind: str) -> None:
        with (self.folder / f"{kind}-{place}.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "effect_broker", kind],
                env=os.environ | self._environment,
                stderr=log,
            )
        self._running[place] = (kind, process)

    def _kill_one(self, dice: random.Random) -> None:
        place = dice.choice(list(self._running))
        kind, process = self._running[place]
        process.kill()
        process.wait()
        self.kills[kind] += 1
        self._start(place, kind)

    def _lose_some(self, dice: random.Random) -> None:
        """Have the target drop, delay or hide some answers, before and after commits."""
        for _ in range(dice.randrange(3)):
            fault = dice.choice(
                [
                    "drop_after_commit",
                    "reset_after_commit",
                    "drop_before_commit",
                    "truncate_after_commit",
                    "fail_after_commit",
                ]
            )
            self.target.fault(fault)

    def _calm_down(self) -> None:
        ends = time.monotonic() + CALM_SECONDS_MAX
        while (moving := self._moving()) and time.monotonic() < ends:
            self.tell(f"{moving} effects on their way")
            time.sleep(0.5)

    def _moving(self) -> int:
        """Count what is not settled and does not wait for a person."""
        with psycopg.connect(self.url) as connection:
            found = connection.execute(
                "SELECT count(*) FROM effect_broker.effect_work w"
                " WHERE w.due_at <> 'infinity'"
            ).fetchone()
        assert found is not None
        return int(found[0])

    async def _prepare(self) -> None:
        core = Core(self._settings, NullMeter())
        path = self.folder / "contracts.toml"
        path.write_text(contracts())
        assert len(load_contracts(path)) == len(CLASSES)
        administration = Administration(core.registry, core.keyring.hmac_keys)
        await administration.publish(path)
        await administration.create_tenant("chaos", "Chaos", None)
        await core.connections.close()

    async def _submit(self, numbers: Sequence[int]) -> None:
        core = Core(self._settings, NullMeter())
        tenant = await self._tenant(core)
        requests = [
            EffectRequest(key(number), f"chaos.{CLASSES[number % 4]}", arguments(number))
            for number in numbers
        ]
        for found in await core.broker.submit_many(tenant.tenant_id, requests):
            assert isinstance(found, Reservation), found
        await core.connections.close()

    async def _tenant(self, core: Core) -> Tenant:
        return await Administration(core.registry, ()).tenant("chaos")

    async def _verdict(self, effects: int) -> Mapping[str, Any]:
        """Judge every effect by its target's table and by what the ledger says of it."""
        core = Core(self._settings, NullMeter())
        tenant = await self._tenant(core)
        listed = {
            view.snapshot.intent.operation_key
            for view in await core.broker.page(
                tenant.tenant_id, EffectQuery(unknown=True, limit=10 * effects)
            )
        }
        charged = self._charged()
        told: dict[str, Counter[str]] = {world: Counter() for world in CLASSES}
        broken: list[str] = []
        for number in range(effects):
            world, name = CLASSES[number % 4], key(number)
            found = await core.ledger.find(tenant.tenant_id, name)
            assert found is not None
            count = charged[name]
            told[world][f"{found.status}, {count} charged"] += 1
            if not holds(world, found.status, count, listed=name in listed):
                events = await core.ledger.events(
                    tenant.tenant_id, found.intent.effect_id
                )
                history = [f"{event.type} {event.metadata}" for event in events]
                said = f"{name} ({world}): {found.status}, {count} charges"
                broken.append("\n  ".join([said, *history]))
        await core.connections.close()
        return {
            "seed": self.seed,
            "effects": effects,
            "kills": dict(self.kills),
            "told": {world: dict(counts) for world, counts in told.items()},
            "broken": broken,
        }

    def _charged(self) -> Counter[str]:
        found = Counter(charge.order for charge in self.target.charges())
        with psycopg.connect(self.url) as connection:
            rows = connection.execute("SELECT operation_key FROM public.charges")
            found.update(row[0] for row in rows)
        return found


def holds(world: str, status: EffectStatus, count: int, *, listed: bool) -> bool:
    """Say whether an effect's end keeps the promise of its class."""
    if world != "plain":
        return (status, count) == (EffectStatus.SUCCEEDED, 1)
    if status is EffectStatus.SUCCEEDED:
        return count == 1
    return status is EffectStatus.OUTCOME_UNKNOWN and count <= 1 and listed


def key(number: int) -> str:
    """Return the operation key of an effect."""
    return f"chaos:{number:04d}:charge:v1"


def arguments(number: int) -> dict[str, Any]:
    """Return the arguments of an effect: the target's order is the operation key."""
    if CLASSES[number % 4] == "local":
        return {"amount": 100}
    return {"amount": 100, "currency": "eur", "order": key(number)}


@contextmanager
def a_server() -> Iterator[str]:
    """Yield the URL of a PostgreSQL of the run's own."""
    with (
        tempfile.TemporaryDirectory() as folder,
        EmbeddedPostgres.start(Path(folder)) as server,
    ):
        yield server.url()


def main() -> int:
    """Run a storm and print its verdict as JSON; 1 where a promise was broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.storm")
    parser.add_argument("--effects", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=None)
    given = parser.parse_args()
    seed = given.seed if given.seed is not None else random.SystemRandom().getrandbits(32)

    def tell(doing: str) -> None:
        if sys.stderr.isatty():
            sys.stderr.write(f"\r\x1b[K{doing}")

    with tempfile.TemporaryDirectory() as name, a_server() as url:
        folder = Path(name)
        with run_target(folder / "charges.db") as target:
            verdict = Storm(url, target, folder, seed, tell).run(
                given.effects, given.seconds
            )
    tell("")
    print(json.dumps(verdict, indent=2))
    return 1 if verdict["broken"] else 0


if __name__ == "__main__":
    sys.exit(main())
