"""`effect-broker dev`: API, worker, reconciler and its own PostgreSQL in one process.

For a first look and for tests of one's own service; never production. Everything lies in
one folder and outlives the process.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import fcntl
import json
import logging
import os
import secrets
import shlex
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from effect_broker.contracts import load_contracts, parse_contracts
from effect_broker.domain.contract import EffectContract
from effect_broker.domain.errors import (
    ContractInvalid,
    EffectBrokerError,
    SecretNotFound,
    Unauthenticated,
)
from effect_broker.embedded import EmbeddedPostgres
from effect_broker.ports import Nudger
from effect_broker.settings import Settings
from effect_broker.surfaces.admin import Administration
from effect_broker.surfaces.auth import Authenticator
from effect_broker.surfaces.http_api import create_app
from effect_broker.surfaces.http_process import http_parts, server_config
from effect_broker.surfaces.metrics_server import Server
from effect_broker.surfaces.plain_process import loop_of, signals
from effect_broker.surfaces.samples import sample_arguments
from effect_broker.telemetry.logs import configure_logging
from effect_broker.telemetry.prometheus import PrometheusMeter
from effect_broker.wiring.core import Core
from effect_broker.wiring.sources import migrate
from effect_broker.wiring.workers import Workers

TENANT: Final = "dev"
SCOPES: Final = ("submit", "read", "operate")
CONNECTIONS: Final = 8
WATCH_SECONDS: Final = 1.0
"""Between looks whether a contract file has changed."""

_log: Final = logging.getLogger(__name__)

Say = Callable[[str], None]


FIRST_CONTRACT: Final = b"""
[[contracts]]
tool = "demo.charge"
name = "demo-charge"
version = "1"
safety = "idempotent"
adapter = "simulated"
description = "Charge a card at a target that lives in this process and forgets."
attempt_timeout = "3s"
lease = "5s"
backoff = { initial = "200ms", factor = 2.0, max = "5s", jitter = 0.2 }
key_retention = "24h"
settlement_bound = "2s"
key_records = "all_answers"
[contracts.arguments]
type = "object"
required = ["amount", "currency"]
[contracts.arguments.properties]
amount = { type = "integer", minimum = 1 }
currency = { type = "string", examples = ["eur"] }
simulate = { type = "array", items = { type = "string" } }
[contracts.redact]
show = ["/amount", "/currency", "/simulate"]
"""
"""What can be tried where no contracts are given: a target that does as it is told."""


@dataclass(frozen=True, slots=True)
class Ready:
    """Where a development broker answers, the key that opens it, and what it can do.

    `request` is a body to submit for one of the tools; None where none can be made up.
    `unsent` are tools for which this process can send nothing, and why. `environment` is
    a file to source, which lets the command line in as well.
    """

    url: str
    api_key: str
    tools: Sequence[str]
    request: Mapping[str, Any] | None
    unsent: Mapping[str, str]
    environment: Path


class AlreadyRunning(Exception):
    """Another process works in the folder; its database would end with this one."""


class WakingNudger:
    """Wakes the loops of this process; a delayed nudge is left to their own looks."""

    def __init__(self) -> None:
        self.sends = asyncio.Event()
        self.looks = asyncio.Event()

    async def dispatch(
        self, effect_ids: Sequence[UUID], *, delay: timedelta = timedelta(0)
    ) -> None:
        """Have the worker look at once."""
        if not delay:
            self.sends.set()

    async def reconcile(
        self, effect_ids: Sequence[UUID], *, delay: timedelta = timedelta(0)
    ) -> None:
        """Have the reconciler look at once."""
        if not delay:
            self.looks.set()


@dataclass(frozen=True)
class DevelopmentCore(Core):
    """A core whose nudges wake loops beside it."""

    waking: WakingNudger = field(default_factory=WakingNudger)

    @cached_property
    def nudger(self) -> Nudger:
        """The process's own events in place of queues."""
        return self.waking


async def develop(
    folder: Path,
    contracts: Path | None,
    host: str,
    port: int,
    *,
    environ: Mapping[str, str] | None = None,
    say: Say,
    ready: Callable[[Ready], None],
) -> None:
    """Run everything until a signal; the folder keeps database, keyring and API key.

    Contracts are published at the start and again whenever a file changes; a broken one
    is told, and the last good one stays.

    Raises:
        AlreadyRunning: somebody develops in this folder already.
        OSError: the address cannot be had.
        EmbeddedPostgresError: there is no PostgreSQL to be had.
        ContractInvalid: a contract is broken at the start.
    """
    if contracts is not None:
        load_contracts(contracts)
    with (
        _occupied(folder),
        socket.create_server((host, port), reuse_port=False) as listening,
    ):
        say("starting PostgreSQL")
        postgres = await asyncio.to_thread(EmbeddedPostgres.start, folder / "postgres")
        try:
            url, given = postgres.url(), os.environ | dict(environ or {})
            settings = _settings(folder, url, given)
            configure_logging(settings.log_level)
            say("migrating")
            await asyncio.to_thread(migrate, settings)
            await _run(settings, folder, contracts, listening, ready)
        finally:
            await asyncio.to_thread(postgres.stop)


@contextlib.contextmanager
def _occupied(folder: Path) -> Iterator[None]:
    """Have the folder for this process alone, until it ends, however it ends."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    (folder / ".gitignore").write_text("*\n")
    with (folder / "dev.lock").open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            raise AlreadyRunning(
                f"effect-broker dev runs in {folder} already, as process"
                f" {lock.read().strip()}. Use that one, or name another --folder."
            ) from None
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        yield


async def _run(
    settings: Settings,
    folder: Path,
    contracts: Path | None,
    listening: socket.socket,
    ready: Callable[[Ready], None],
) -> None:
    meter = PrometheusMeter()
    core = DevelopmentCore(settings, meter, CONNECTIONS)
    workers = Workers(core, "dev")
    stop = asyncio.Event()
    try:
        administration = Administration(core.registry, core.keyring.hmac_keys)
        if contracts is None:
            for contract in parse_contracts(FIRST_CONTRACT):
                await core.registry.publish(contract)
        else:
            await administration.publish(contracts)
        key = await _api_key(core, administration, folder / "api-key")
        where = "http://{}:{}".format(*listening.getsockname()[:2])
        tools = [it.contract for it in await core.broker.tools()]
        told = Ready(
            where,
            key,
            [contract.tool for contract in tools],
            _first_request(tools),
            await _unsent(workers, tools),
            folder / "env",
        )
        await asyncio.to_thread(_write_private, told.environment, _env(settings, told))
        server = Server(server_config(create_app(http_parts(core, meter))))
        running = asyncio.create_task(
            _together(core, workers, server, listening, stop, contracts)
        )
        with signals(stop, running):
            ready(told)
            await running
    finally:
        await core.connections.close()


async def _together(
    core: DevelopmentCore,
    workers: Workers,
    server: Server,
    listening: socket.socket,
    stop: asyncio.Event,
    contracts: Path | None,
) -> None:
    """Run the parts until `stop`; if one breaks, all end."""
    waking = core.waking

    async def serve() -> None:
        serving = asyncio.create_task(server.serve(sockets=[listening]))
        await stop.wait()
        server.should_exit = True
        await serving

    async with asyncio.TaskGroup() as parts:
        parts.create_task(serve())
        parts.create_task(loop_of(workers, "worker", stop, wake=waking.sends).run())
        parts.create_task(loop_of(workers, "reconciler", stop, wake=waking.looks).run())
        if contracts is not None:
            parts.create_task(_watch(core, contracts, stop))


async def _unsent(workers: Workers, tools: Sequence[EffectContract]) -> Mapping[str, str]:
    """Say for which tools nothing can be sent from here: their effects would wait."""
    found = {}
    for contract in tools:
        try:
            await workers.adapters.scope_digest(contract)
        except (ContractInvalid, SecretNotFound) as error:
            found[contract.tool] = error.message
    return found


def _env(settings: Settings, ready: Ready) -> str:
    values = {
        "EFFECT_BROKER_URL": ready.url,
        "EFFECT_BROKER_API_KEY": ready.api_key,
        "EFFECT_BROKER_DATABASE_URL": str(settings.database_url),
        "EFFECT_BROKER_KEYRING": settings.keyring,
        "EFFECT_BROKER_KEYRING_SECRET": settings.keyring_secret,
        "EFFECT_BROKER_TENANT": TENANT,
    }
    return "".join(
        f"export {name}={shlex.quote(value)}\n" for name, value in values.items() if value
    )


def _first_request(tools: Sequence[EffectContract]) -> Mapping[str, Any] | None:
    for contract in tools:
        arguments = sample_arguments(contract)
        if arguments is not None:
            key = f"order:ord_1:{contract.tool}:v1"
            return {
                "operation_key": key,
                "tool": contract.tool,
                "arguments": arguments,
            }
    return None


async def _watch(core: Core, contracts: Path, stop: asyncio.Event) -> None:
    """Publish contracts whenever a file changes; a broken one is told."""
    known = await asyncio.to_thread(_stamps, contracts)
    while not stop.is_set():
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), WATCH_SECONDS)
        found = await asyncio.to_thread(_stamps, contracts)
        if found == known:
            continue
        known = found
        try:
            published = await Administration(core.registry, ()).publish(contracts)
        except EffectBrokerError as error:
            _log.error("the changed contracts are not published: %s", error)
            continue
        for item, created in published:
            if created:
                _log.info("published %s %s", item.contract.name, item.contract.version)


def _stamps(contracts: Path) -> Mapping[Path, int]:
    """Return when each file last changed; one that an editor is replacing is left out."""
    stamps = {}
    for path in [contracts, *contracts.rglob("*")]:
        with contextlib.suppress(OSError):
            if path.is_file():
                stamps[path] = path.stat().st_mtime_ns
    return stamps


async def _api_key(core: Core, administration: Administration, path: Path) -> str:
    """Return the key of the last run if it still opens, else a new one."""
    await administration.create_tenant(TENANT, "Development", None)
    kept = await asyncio.to_thread(_read, path)
    if kept is not None:
        try:
            await Authenticator(core.registry).authenticate(f"Bearer {kept}")
        except Unauthenticated:
            _log.info("the last API key opens nothing any more")
        else:
            return kept
    made = await administration.create_key(TENANT, SCOPES)
    await asyncio.to_thread(_write_private, path, made.key)
    return made.key


def _settings(folder: Path, url: str, environ: Mapping[str, str]) -> Settings:
    """Take what the environment says, but for the database and a keyring of its own."""
    keyring = folder / "keyring.json"
    if not keyring.exists():
        _write_private(keyring, _fresh_keyring())
    ours = {
        name: value
        for name, value in environ.items()
        if name not in ("EFFECT_BROKER_DATABASE_URL", "EFFECT_BROKER_DATABASE_SECRET")
    }
    settings = Settings.from_environment({**ours, "EFFECT_BROKER_DATABASE_URL": url})
    if settings.keyring is None and settings.keyring_secret is None:
        settings = replace(settings, keyring=f"file:{keyring}")
    return settings


def _fresh_keyring() -> str:
    def key() -> str:
        return base64.b64encode(secrets.token_bytes(32)).decode()

    ring = {
        "data_keys": {"dev1": key()},
        "active_data_key": "dev1",
        "hmac_keys": {"dev1": key()},
    }
    return json.dumps(ring)


def _read(path: Path) -> str | None:
    return path.read_text().strip() if path.exists() else None


def _write_private(path: Path, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
