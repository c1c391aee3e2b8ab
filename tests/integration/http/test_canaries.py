"""Secrets planted everywhere, looked for everywhere: on the way in, at the target, and in
whatever is kept, logged, counted, traced or refused.
"""

from __future__ import annotations

import base64
import io
import json
import logging
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import httpx2
import psycopg
import pytest
import pytest_asyncio
from psycopg import sql

from effect_broker import EffectBrokerClient, EffectRequest
from effect_broker.domain.errors import EffectBrokerError
from effect_broker.settings import Settings
from effect_broker.surfaces.admin import Administration
from effect_broker.surfaces.auth import Authenticator
from effect_broker.surfaces.direct import DirectInvocations
from effect_broker.surfaces.http_api import HttpParts, create_app
from effect_broker.surfaces.mcp.process import http_app
from effect_broker.surfaces.problem import problem_of
from effect_broker.surfaces.task_tokens import answering, task_tokens
from effect_broker.telemetry.logs import configure_logging
from effect_broker.telemetry.prometheus import PrometheusMeter
from effect_broker.wiring.core import Core
from effect_broker.wiring.workers import Workers
from tests.guarantees import guarantee
from tests.integration.broker.world import KEYRING

CANARY: Final = "cAnAry5ec4e7"
"""In every place it has a suffix of its own, so that a leak says where it comes from."""

ARN: Final = "arn:aws:lambda:eu-central-1:123456789012:function:submit:tenant-acme"

CONTRACT: Final = """
[[contracts]]
tool = "canary.send"
name = "canary-send"
version = "1"
safety = "{safety}"
adapter = "http"
attempt_timeout = "2s"
settlement_bound = "1s"
{keys}
[contracts.arguments]
type = "object"
required = ["order", "amount"]
additionalProperties = false
[contracts.arguments.properties]
order = {{ type = "string" }}
amount = {{ type = "integer" }}
card = {{ type = "string" }}
more = {{ type = "object" }}
[contracts.output]
type = "object"
required = ["id"]
[contracts.redact]
show = ["/amount"]
[contracts.http]
method = "POST"
url = "{url}/v1/{{arguments.order}}"
headers = {{ Authorization = {{ secret = "canary/token" }} }}
body = "json"
external_id = "/id"
account = "acct"
allow_private = true
{header}
[contracts.http.meaning]
code = "/error/code"
"2xx" = "committed"
"402/card_declined" = "rejected_final"
"""


class Target(BaseHTTPRequestHandler):
    """Answers with the caller's secrets, in every shape that an answer may have."""

    def do_POST(self) -> None:
        length = int(self.headers["Content-Length"])
        asked = self.rfile.read(length).decode()
        act = json.loads(asked)["order"].split("-")[0]
        echoed = {"echo": asked, "token": self.headers["Authorization"]}
        secret = f"{CANARY}-answer"
        if act == "decline":
            error = {"code": "card_declined", "message": secret}
            self._answer(402, json.dumps({"error": error, **echoed}))
        elif act == "fail":
            self._answer(500, json.dumps({**echoed, "message": secret}))
        elif act == "garbage":
            self._answer(201, f"<html>{secret} {asked}")
        else:
            self._answer(201, json.dumps({"id": "ch_1", "secret": secret, **echoed}))

    def _answer(self, status: int, body: str) -> None:
        self.send_response(status, f"{CANARY}-reason")
        self.send_header("Content-Type", "application/json")
        self.send_header("X-Secret", f"{CANARY}-header-of-answer")
        self.send_header("Content-Length", str(len(body.encode())))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_: object) -> None:
        """Stay silent."""


@pytest.fixture
def target() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Target)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    stream = io.StringIO()
    configure_logging("DEBUG", stream)
    yield stream
    root.handlers[:], root.level = handlers, level


@dataclass
class Planted:
    """One broker that reaches a target, and everything it has said so far."""

    core: Core
    url: str
    meter: PrometheusMeter
    key: str
    app: Any
    said: list[str]

    def caller(self) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(
            transport=httpx2.ASGITransport(self.app),
            base_url="http://api",
            headers={
                "Authorization": f"Bearer {self.key}",
                "X-Secret": f"{CANARY}-header",
                "Cookie": f"session={CANARY}-cookie",
                "User-Agent": f"{CANARY}-agent",
            },
        )

    async def refused(self, answer: httpx2.Response) -> None:
        assert answer.status_code >= 400, answer.text
        self.said.append(answer.text + str(answer.headers))


@pytest_asyncio.fixture
async def planted(
    fresh_database: str, target: str, tmp_path: Path
) -> AsyncIterator[Planted]:
    meter = PrometheusMeter()
    settings = Settings.from_environment(
        {
            "EFFECT_BROKER_DATABASE_URL": fresh_database,
            "EFFECT_BROKER_KEYRING": KEYRING,
            "EFFECT_BROKER_SECRET__CANARY__TOKEN": f"{CANARY}-secret",
        }
    )
    core = Core(settings, meter)
    keyed = {
        "safety": "idempotent",
        "keys": 'key_retention = "24h"',
        "header": 'key_header = "Idempotency-Key"',
    }
    contracts = tmp_path / "contracts.toml"
    contracts.write_text(CONTRACT.format(url=target, **keyed))
    administration = Administration(core.registry, core.keyring.hmac_keys)
    await administration.create_tenant("acme", "Acme")
    await administration.publish(contracts)
    made = await administration.create_key("acme", ["submit", "read", "operate"])
    parts = HttpParts(core.broker, Authenticator(core.registry), core.check_ready)
    yield Planted(core, fresh_database, meter, made.key, create_app(parts), [])
    await core.connections.close()


def arguments(order: str) -> dict[str, Any]:
    return {
        "order": f"{order}-{CANARY}-path",
        "amount": 1,
        "card": f"{CANARY}-argument",
        "more": {f"{CANARY}-name": [f"{CANARY}-deep"]},
    }


def submission(key: str, order: str) -> dict[str, Any]:
    return {"operation_key": key, "tool": "canary.send", "arguments": arguments(order)}


@guarantee("nothing-in-the-clear")
async def test_what_is_planted_is_found_nowhere(
    planted: Planted, log: io.StringIO
) -> None:
    """C74: arguments, headers, query, secret references, answers, evidence, tokens."""
    spans = recorded_spans()
    async with planted.caller() as caller:
        for number, order in enumerate(("fine", "decline", "fail", "garbage")):
            body = submission(f"order:{number}:send", order)
            answer = await caller.post(f"/v1/effects?q={CANARY}-query", json=body)
            assert answer.status_code == 202
        await submit_elsewhere(planted)
        workers = Workers(planted.core, "test")
        for _ in range(2):
            await workers.dispatcher.run_once()
            await workers.sweep()
            await workers.reconciler.run_once()
        await workers.adapters.aclose()
        await decide(planted, caller)
        await refuse_everything(planted, caller)
    answered = await answering(planted.core).run_once()
    assert answered.left == 1, "nobody listens where the token would be answered"
    metrics, _ = planted.meter.render()
    seen = {
        "log": log.getvalue(),
        "metrics": metrics.decode(),
        "refusals": "\n".join(planted.said),
        "spans": "\n".join(span.to_json() for span in spans()),
        "database": await_database(planted.url),
    }
    assert len(seen["log"].splitlines()) > 10
    assert "effect_broker_attempts_total" in seen["metrics"]
    leaks = {
        place: [text[max(0, at - 80) : at + 60]]
        for place, text in seen.items()
        for form in forms()
        if (at := text.lower().find(form)) >= 0
    }
    assert leaks == {}


def forms() -> set[str]:
    """Return the canary as it is, and as bytes are often written."""
    raw = CANARY.encode()
    encoded = base64.b64encode(raw).decode().rstrip("=")
    return {CANARY.lower(), raw.hex(), encoded.lower()[:-1]}


async def submit_elsewhere(planted: Planted) -> None:
    """Submit by direct invocation with a task token, and by the Python client."""
    core = planted.core
    direct = DirectInvocations(core.broker, core.registry, task_tokens(core))
    event = {"operation": "submit", **submission("order:5:send", "decline")}
    await direct.answer({**event, "task_token": f"{CANARY}-token"}, ARN)
    for wrong in (
        {**event, f"{CANARY}-field": 1},
        {**event, "arguments": {"order": 1, "card": f"{CANARY}-argument"}},
        {"operation": f"{CANARY}-operation"},
    ):
        try:
            await direct.answer(wrong, ARN)
        except EffectBrokerError as error:
            # an unknown field is named; what it held is not
            planted.said.append(
                problem_of(error).body().decode().replace(f"{CANARY}-field", "")
            )
    client = EffectBrokerClient(
        "http://api", planted.key, transport=httpx2.ASGITransport(planted.app)
    )
    async with client:
        request = EffectRequest("order:6:send", "canary.send", arguments("fail"))
        await client.submit(request)
    await call_tools(planted)


async def call_tools(planted: Planted) -> None:
    """Call the contract's tool over MCP, well and wrongly, and keep what is refused."""
    app = http_app(planted.core, timedelta(0))
    headers = {"Authorization": f"Bearer {planted.key}", "X-Secret": f"{CANARY}-header"}
    transport = httpx2.ASGITransport(app)
    async with httpx2.AsyncClient(transport=transport, headers=headers) as caller:
        for call in (
            {"operation_key": "order:7:send", **arguments("decline")},
            {"operation_key": "order:7:send", **arguments("fine")},
            {"operation_key": f"{CANARY} ", **arguments("fine")},
            {"operation_key": "order:8:send", "order": 1, "card": f"{CANARY}-argument"},
        ):
            params = {"name": "canary.send", "arguments": call}
            answer = await mcp_answer(caller, "tools/call", params)
            result = answer["result"]
            if result["isError"]:
                planted.said.append(json.dumps(result))
        unknown = {"name": f"{CANARY}-tool", "arguments": {"operation_key": "order:9:x"}}
        told = json.dumps(await mcp_answer(caller, "tools/call", unknown))
        planted.said.append(told.replace(f"{CANARY}-tool", ""))
        broken = await caller.post("http://mcp/mcp", content=f'{{"{CANARY}'.encode())
        planted.said.append(broken.text)


async def mcp_answer(
    caller: httpx2.AsyncClient, method: str, params: dict[str, Any]
) -> dict[str, Any]:
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    accepted = {"Accept": "application/json, text/event-stream"}
    answer = await caller.post("http://mcp/mcp", json=body, headers=accepted)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def decide(planted: Planted, caller: httpx2.AsyncClient) -> None:
    """Resolve what is unknown, with secrets in what was seen."""
    unknown = (await caller.get("/v1/effects?status=outcome_unknown")).json()["effects"]
    assert unknown
    for effect in unknown:
        body = {
            "decision": "committed",
            "reason": f"{CANARY}-reason",
            "evidence": {"seen": f"{CANARY}-evidence"},
            "observed_at": datetime.now(UTC).isoformat(),
            "expected_version": effect["version"],
            "decision_id": "d-1",
            "output": {"secret": f"{CANARY}-output"},
        }
        answer = await caller.post(
            f"/v1/effects/{effect['effect_id']}/resolve", json=body
        )
        assert answer.status_code == 200, answer.text


async def refuse_everything(planted: Planted, caller: httpx2.AsyncClient) -> None:
    """Collect refusals of requests that carry secrets where they do not belong."""
    drifted = submission("order:0:send", "fine")
    drifted["arguments"]["card"] = f"{CANARY}-drift"
    wrong = submission("order:9:send", "fine")
    wrong["arguments"]["amount"] = f"{CANARY}-amount"
    for answer in (
        await caller.post("/v1/effects", json=drifted),
        await caller.post("/v1/effects", json=wrong),
        await caller.post(
            "/v1/effects",
            content=f'{{"{CANARY}":'.encode(),
            headers={"Content-Type": "application/json"},
        ),
        await caller.post("/v1/effects", content=CANARY.encode()),
        await caller.post("/v1/effects", json={**wrong, "operation_key": f"{CANARY} "}),
        await caller.get(f"/v1/effects?status={CANARY}-query"),
        await caller.get(f"/v1/effects?older_than={CANARY}-query"),
        await caller.get(f"/v1/effects/{CANARY}-path"),
        await caller.get(f"/{CANARY}-path"),
        await caller.get("/v1/tools", headers={"Authorization": f"Bearer ebk_{CANARY}"}),
        await caller.post(
            f"/v1/effects/{UUID(int=1)}/resolve",
            json={"decision": f"{CANARY}-decision"},
            headers={"If-Match": f"{CANARY}-tag"},
        ),
    ):
        await planted.refused(answer)


def await_database(url: str) -> str:
    """Return every row of every table of the ledger as text."""
    with psycopg.connect(url) as connection:
        tables = connection.execute(
            "SELECT table_name FROM information_schema.tables"
            " WHERE table_schema = 'effect_broker'"
        ).fetchall()
        dumped = []
        for (name,) in tables:
            table = sql.Identifier("effect_broker", name)
            rows = connection.execute(sql.SQL("SELECT t::text FROM {} t").format(table))
            dumped += [f"{name}: {row}" for (row,) in rows]
    assert len(dumped) > 20
    return "\n".join(dumped)


def recorded_spans() -> Any:
    """Record whatever is traced from now on, by whomever."""
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import (
        InMemorySpanExporter,
    )

    exporter = InMemorySpanExporter()
    provider = trace.get_tracer_provider()
    if not isinstance(provider, TracerProvider):
        provider = TracerProvider()
        trace.set_tracer_provider(provider)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return exporter.get_finished_spans
