"""The doctor finds what was broken on purpose, and says what to do."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from effect_broker.domain.errors import LedgerUnavailable
from effect_broker.ledger.connection import Connections
from effect_broker.ledger.health import Backends, LedgerClock, PostgresHealth, Server
from effect_broker.ledger.retention import Month
from effect_broker.surfaces.diagnosis import path
from effect_broker.surfaces.diagnosis.database import (
    clock_findings,
    partition_findings,
    pooler_findings,
    server_findings,
)
from effect_broker.surfaces.diagnosis.finding import Finding, Verdict
from effect_broker.surfaces.diagnosis.path import try_path
from tests.guarantees import guarantee
from tests.integration.broker.world import KEYRING
from tests.integration.cli.commands import Commands
from tests.integration.cli.test_effects import effect_after, in_world
from tests.integration.functions.invoking import CONTRACTS

KEY = "order:1:charge:v1"


def verdicts(rows: list[dict[str, Any]]) -> dict[str, str]:
    """Return the worst verdict of each check."""
    order = ["skipped", "ok", "warning", "broken"]
    worst: dict[str, str] = {}
    for row in rows:
        known = worst.get(row["check"], "skipped")
        worst[row["check"]] = max(known, row["verdict"], key=order.index)
    return worst


def examined(
    commands: Commands, *options: str, status: int = 0
) -> tuple[dict[str, str], list[dict[str, Any]]]:
    rows = commands.lines("doctor", *options, "--json", status=status)
    assert all(row["what"] and row["where"] for row in rows)
    assert all(row["do"] for row in rows if row["verdict"] in ("warning", "broken"))
    return verdicts(rows), rows


def test_sound_deployment_has_nothing_broken(commands: Commands) -> None:
    effect_after(commands.url, KEY)
    found, _ = examined(commands, "--deep", status=1)
    assert found.pop("durability") == "broken", "the tests' server runs without fsync"
    assert found.pop("role settings") == "warning", "the tests connect as a superuser"
    assert set(found.values()) == {"ok"}
    assert {
        "database",
        "migrations",
        "keyring",
        "keys in use",
        "API keys",
        "contracts",
        "clocks",
        "pooler",
        "dispatch",
        "partitions",
        "key hygiene",
        "receipts and chains",
    } <= found.keys()
    printed = commands.text("doctor", status=1)
    assert "Only with --deep" in printed


def test_application_role_is_what_the_broker_should_be(
    commands: Commands, application_url: str
) -> None:
    commands.monkeypatch.setenv("EFFECT_BROKER_DATABASE_URL", application_url)
    found, rows = examined(commands, status=1)
    assert found["role settings"] == "ok"
    assert "as effect_broker_app" in str(rows)


def test_ledger_away_is_said_with_a_status_of_its_own(commands: Commands) -> None:
    url = "postgresql://nobody@127.0.0.1:1/none"
    commands.monkeypatch.setenv("EFFECT_BROKER_DATABASE_URL", url)
    found, rows = examined(commands, status=3)
    assert found == {"database": "broken"}
    assert "nothing is sent" in rows[0]["do"]


def test_empty_database_needs_a_migration(
    empty_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, rows = examined(Commands(empty_database, monkeypatch), status=1)
    assert found["migrations"] == "broken"
    assert "effect-broker migrate" in str(rows)


def test_held_dispatch_is_broken_and_says_why(commands: Commands) -> None:
    in_world(commands.url, lambda world: world.ledger.hold_dispatch("clock step"))
    found, rows = examined(commands, status=1)
    assert found["dispatch"] == "broken"
    assert "clock step" in str(rows)


def test_another_keyring_is_found_before_anything_is_opened(commands: Commands) -> None:
    effect_after(commands.url, KEY)
    other = json.loads(KEYRING)
    other["data_keys"] = {"k9": other["data_keys"]["k1"]}
    other |= {"active_data_key": "k9", "hmac_keys": {"h9": other["hmac_keys"]["h1"]}}
    commands.monkeypatch.setenv("EFFECT_BROKER_KEYRING", json.dumps(other))
    found, rows = examined(commands, "--deep", status=1)
    assert (found["keyring"], found["keys in use"]) == ("broken", "broken")
    assert "Without h1" in str(rows)
    assert "Without h1, k1" in str(rows)
    commands.monkeypatch.setenv("EFFECT_BROKER_KEYRING", "file:/nowhere")
    assert examined(commands, status=1)[0]["keyring"] == "broken"


def test_key_that_ends_soon_is_worth_a_look(commands: Commands) -> None:
    commands.run("tenants", "create", "acme")
    call = ("keys", "create", "acme", "--scope", "read", "--expires-in")
    commands.run(*call, "30d")
    assert examined(commands, status=1)[0]["API keys"] == "ok"
    key_id = commands.line(*call, "3d")["key_id"]
    found, rows = examined(commands, status=1)
    assert found["API keys"] == "warning"
    assert key_id in str(rows)


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("order-42", "no part for the step"),
        ("order:42:charge:attempt-2", "attempt number"),
        ("call_9Xk2LmNpQ", "call id"),
    ],
)
def test_keys_that_name_no_lasting_intent_are_shown(
    commands: Commands, key: str, said: str
) -> None:
    """C36, C12: such keys swallow a second effect, or make one of each try."""
    effect_after(commands.url, KEY)
    effect_after(commands.url, key)
    found, rows = examined(commands, status=1)
    assert found["key hygiene"] == "warning"
    (row,) = [row for row in rows if row["check"] == "key hygiene"]
    assert said in row["what"]
    assert "1 of the newest 2 keys" in row["what"]
    assert key in row["what"]
    assert KEY not in row["what"]


def test_contract_files_that_are_not_published_are_named(
    commands: Commands, tmp_path: Path
) -> None:
    file = tmp_path / "contracts.toml"
    file.write_text(CONTRACTS)
    commands.monkeypatch.setenv("EFFECT_BROKER_CONTRACTS", str(file))
    found, _ = examined(commands, status=1)
    assert (found["contracts"], found["contract files"]) == ("warning", "warning")
    commands.run("contracts", "publish", str(file))
    found, _ = examined(commands, status=1)
    assert (found["contracts"], found["contract files"]) == ("ok", "ok")
    file.write_text("nonsense")
    assert examined(commands, status=1)[0]["contract files"] == "broken"


@pytest.fixture
def unsafe_http(commands: Commands, tmp_path: Path) -> Commands:
    """Publish an unsafe contract over HTTP."""
    file = tmp_path / "unsafe.toml"
    file.write_text(UNSAFE_HTTP)
    commands.run("contracts", "publish", str(file))
    return commands


def test_contract_that_this_host_cannot_send_for_is_worth_a_look(
    unsafe_http: Commands,
) -> None:
    found, rows = examined(unsafe_http, status=1)
    assert found["contracts"] == "warning"
    assert "payments/token" in str(rows)


@pytest.mark.usefixtures("impatient")
def test_unsafe_contracts_path_is_unverified_until_it_was_tried(
    unsafe_http: Commands,
) -> None:
    """C38: nothing on the loopback repeats, so that the path is verified there."""
    found, rows = examined(unsafe_http, status=1)
    assert found["post path"] == "warning"
    assert "paging.page" in str(rows)
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    path = ("--post-path", f"http://{address}/", "--listen", address)
    assert examined(unsafe_http, *path, status=1)[0]["post path"] == "ok"
    unsafe_http.run("doctor", *path[:3], "nowhere", status=2)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (
            "UPDATE effect_broker.effect_receipts SET external_id = 'ch_9'",
            "receipts that were changed",
        ),
        (
            "UPDATE effect_broker.effect_events SET actor = 'x' WHERE sequence = 2",
            "histories that were changed",
        ),
        ("DELETE FROM effect_broker.effect_keys", "effects that no key leads to"),
    ],
)
@guarantee("history-is-immutable")
def test_deep_look_finds_what_was_written_past_the_steps(
    commands: Commands, damage: str, said: str
) -> None:
    effect_id = effect_after(commands.url, KEY)
    with psycopg.connect(commands.url) as connection:
        connection.execute("SET session_replication_role = replica")
        connection.execute(damage.encode())
    found, rows = examined(commands, "--deep", status=1)
    assert found["receipts and chains"] == "broken"
    assert said in str(rows)
    assert effect_id in str(rows)


SERVER = Server(
    version=180_003,
    recovering=False,
    role="effect_broker_app",
    superuser=False,
    owner=False,
    fsync=True,
    full_page_writes=True,
    synchronous_commit="on",
    statements_end=True,
    idle_transactions_end=True,
    isolation="read committed",
)


def worst(findings: Iterable[Finding]) -> Verdict:
    order = [Verdict.OK, Verdict.WARNING, Verdict.BROKEN]
    return max((it.verdict for it in findings), key=order.index)


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        ({}, Verdict.OK),
        ({"version": 150_004}, Verdict.BROKEN),
        ({"recovering": True}, Verdict.BROKEN),
        ({"synchronous_commit": "off"}, Verdict.BROKEN),
        ({"full_page_writes": False}, Verdict.BROKEN),
        ({"statements_end": False}, Verdict.WARNING),
        ({"superuser": True}, Verdict.WARNING),
        ({"owner": True}, Verdict.WARNING),
    ],
)
def test_server_is_judged_by_what_it_keeps(
    changes: dict[str, Any], verdict: Verdict
) -> None:
    assert worst(server_findings(replace(SERVER, **changes))) is verdict


@pytest.mark.parametrize(
    ("backends", "verdict", "said"),
    [
        (Backends(7, [7, 7], [7, 7]), Verdict.OK, "None"),
        (Backends(1, [7, 8], [9, 9]), Verdict.OK, "transaction mode"),
        (Backends(1, [7, 8], [7, 8]), Verdict.BROKEN, "several backends"),
    ],
)
def test_pooler_is_known_by_who_answers(
    backends: Backends, verdict: Verdict, said: str
) -> None:
    """C62: a transaction pooler is fine, one that splits transactions is not."""
    (finding,) = pooler_findings(backends)
    assert finding.verdict is verdict
    assert said in finding.what


NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("months", "strays", "verdict"),
    [
        ([1, 2], 0, Verdict.OK),
        ([1], 0, Verdict.WARNING),
        ([1, 2], 1, Verdict.WARNING),
        ([], 1000, Verdict.WARNING),
    ],
)
def test_months_without_partitions_are_told_before_they_come(
    months: list[int], strays: int, verdict: Verdict
) -> None:
    made = [Month(date(2026, number, 1), False, None, 0, 0, False) for number in months]
    assert worst(partition_findings(made, strays, NOW)) is verdict


@pytest.mark.parametrize(
    ("apart", "last_event", "verdict"),
    [
        (timedelta(milliseconds=300), None, Verdict.OK),
        (timedelta(seconds=-30), None, Verdict.WARNING),
        (timedelta(seconds=30), None, Verdict.WARNING),
        (timedelta(0), timedelta(minutes=-1), Verdict.OK),
        (timedelta(0), timedelta(minutes=1), Verdict.BROKEN),
    ],
)
def test_clocks_that_disagree_are_named(
    apart: timedelta, last_event: timedelta | None, verdict: Verdict
) -> None:
    clock = LedgerClock(NOW + apart, None if last_event is None else NOW + last_event)
    seconds = NOW.timestamp()
    assert worst(clock_findings(clock, seconds, seconds)) is verdict


def test_slow_answer_of_the_database_is_no_skew() -> None:
    clock = LedgerClock(NOW, None)
    before = NOW.timestamp()
    assert worst(clock_findings(clock, before, before + 8)) is Verdict.OK
    assert worst(clock_findings(clock, before + 5, before + 8)) is Verdict.WARNING


async def test_health_of_no_database_is_that_it_is_away() -> None:
    connections = Connections("postgresql://nobody@127.0.0.1:1/none")
    with pytest.raises(LedgerUnavailable):
        await PostgresHealth(connections).server()


UNSAFE_HTTP = """
[[contracts]]
tool = "paging.page"
name = "paging-page"
version = "1"
safety = "unsafe"
adapter = "http"
attempt_timeout = "5s"
settlement_bound = "1s"
[contracts.arguments]
type = "object"
[contracts.http]
method = "POST"
url = "https://paging.example/v1/pages"
headers = { Authorization = { secret = "payments/token" } }
body = "json"
[contracts.http.meaning]
"2xx" = "committed"
"""


class Proxy:
    """Stands before a server, and sends a POST again when it gets no good answer."""

    def __init__(self, sends: int) -> None:
        self.sends = sends
        self.behind = ("", 0)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[str]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        async with server:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"

    def leads_to(self, announced: str) -> None:
        address = announced.split()[2].rstrip(",")
        host, _, port = address.rpartition(":")
        self.behind = (host, int(port))

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        request = await reader.readuntil(b"\r\n\r\n") + await reader.readexactly(2)
        answer = b""
        for _ in range(self.sends):
            answer = await self._forwarded(request)
            if answer.startswith(b"HTTP/1.1 2"):
                break
        writer.write(answer)
        writer.close()

    async def _forwarded(self, request: bytes) -> bytes:
        reader, writer = await asyncio.open_connection(*self.behind)
        try:
            writer.write(request)
            return await reader.read()
        except OSError:
            return b""
        finally:
            writer.close()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(path, "QUIET_SECONDS", 0.0)


async def tried(proxy: Proxy) -> Finding:
    async with proxy.running() as url:
        return await try_path(
            url, "127.0.0.1", 0, unkeyed=["paging.page"], announce=proxy.leads_to
        )


@pytest.mark.usefixtures("impatient")
async def test_proxy_that_repeats_posts_is_found_and_the_unsafe_contract_named() -> None:
    """C38, C39: repeats with and without an idempotency header are told apart."""
    finding = await tried(Proxy(sends=2))
    assert finding.verdict is Verdict.BROKEN
    for said in ("2 times when it answers 503", "2 times with Idempotency-Key", "resets"):
        assert said in finding.what
    assert "paging.page may act twice" in finding.do


@pytest.mark.usefixtures("impatient")
async def test_proxy_that_sends_once_is_trusted() -> None:
    finding = await tried(Proxy(sends=1))
    assert finding.verdict is Verdict.OK


@pytest.mark.usefixtures("impatient")
async def test_url_that_leads_elsewhere_proves_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        port = nobody.getsockname()[1]
        nobody.close()
        finding = await try_path(
            f"http://127.0.0.1:{port}/", "127.0.0.1", 0, unkeyed=[], announce=print
        )
    assert finding.verdict is Verdict.BROKEN
    assert "does not lead" in finding.what
