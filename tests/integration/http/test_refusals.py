"""Whatever goes wrong is a problem with a stable code, and nothing is stored or sent."""

from __future__ import annotations

import json
from uuid import UUID

import pytest
from httpx2 import ASGITransport, AsyncClient

from effect_broker.broker.facade import EffectBroker
from effect_broker.broker.resolving import Finding
from effect_broker.domain.errors import SchemaMismatch
from effect_broker.domain.resolution import Decision
from effect_broker.ledger.connection import Connections
from effect_broker.ledger.postgres import PostgresLedger
from effect_broker.ledger.registry import PostgresRegistry
from effect_broker.ports import EffectQuery
from effect_broker.surfaces.auth import Authenticator
from effect_broker.surfaces.http_api import HttpParts, create_app
from tests.guarantees import guarantee
from tests.integration.broker.world import World
from tests.integration.http.api import Api, assert_problem, charge, client

NOBODY_LISTENS = "postgresql://nobody@127.0.0.1:1/none"


async def test_unknown_paths_and_methods_are_problems(api: Api) -> None:
    for path in ("/", "/v1", "/v2/effects", "/v1/effects/", "/v1/effects/x/y"):
        assert_problem(await api.agent.get(path), 404, "route_not_found")
    for method, path, allowed in (
        ("PUT", "/v1/effects", "GET, POST"),
        ("DELETE", "/v1/effects/x", "GET"),
        ("GET", "/v1/effects/x/resolve", "POST"),
        ("POST", "/healthz", "GET"),
    ):
        answer = await api.agent.request(method, path)
        assert_problem(answer, 405, "method_not_allowed")
        assert answer.headers["allow"] == allowed


async def test_health_and_readiness_need_no_key(api: Api) -> None:
    assert (await api.anonymous.get("/healthz")).json() == {"status": "ok"}
    assert (await api.anonymous.get("/readyz")).json() == {"status": "ready"}
    assert_problem(await api.anonymous.get("/metrics"), 404, "route_not_found")


@guarantee("no-ledger-no-dispatch")
async def test_ledger_away_refuses_safely_on_every_route(api: Api) -> None:
    effect_id = await api.settled()
    connections = Connections(NOBODY_LISTENS)
    away = World(
        ledger=PostgresLedger(connections),
        registry=PostgresRegistry(connections),
        clock=api.world.clock,
        pass_time=api.world.pass_time,
    )
    believing = Authenticator(api.world.registry)
    app = create_app(HttpParts(away.broker, believing, ready=_away))
    operator = await client(
        app, api.world.registry, "acme", ["submit", "read", "operate"]
    )
    here = f"/v1/effects/{effect_id}"
    finding = {
        "decision": "committed",
        "reason": "x",
        "evidence": {},
        "expected_version": 1,
        "decision_id": "d",
    }
    for method, path, body in (
        ("POST", "/v1/effects", charge("order:2:charge:v1")),
        ("GET", "/v1/effects", None),
        ("GET", "/v1/tools", None),
        ("GET", here, None),
        ("GET", f"{here}/history", None),
        ("GET", f"{here}/receipt", None),
        ("POST", f"{here}/reconcile", None),
        ("POST", f"{here}/fork", {"at_sequence": 1}),
        ("POST", f"{here}/fork", {"live": True, "operation_key": "order:9:charge"}),
        ("POST", f"{here}/resolve", finding),
        ("POST", f"{here}/compensation", {"compensated_by": effect_id, "reason": "x"}),
    ):
        answer = await operator.request(method, path, json=body)
        document = assert_problem(answer, 503, "ledger_unavailable")
        assert int(answer.headers["retry-after"]) > 0
        assert document["safe_to_repeat"] is True
    assert len(api.world.target.requests) == 1
    rows = await api.world.ledger.page(api.world.tenant.tenant_id, EffectQuery())
    assert len(rows) == 1
    assert_problem(await operator.get("/readyz"), 503, "schema_mismatch")
    assert (await operator.get("/healthz")).status_code == 200


async def test_registry_away_is_503_and_not_a_wrong_key(api: Api) -> None:
    registry = PostgresRegistry(Connections(NOBODY_LISTENS))
    app = create_app(HttpParts(api.world.broker, Authenticator(registry), ready=_away))
    caller = AsyncClient(transport=ASGITransport(app), base_url="http://api")
    key = api.agent.headers["authorization"]
    answer = await caller.post(
        "/v1/effects", json=charge(), headers={"Authorization": key}
    )
    assert_problem(answer, 503, "ledger_unavailable")


async def test_defect_is_answered_without_its_text(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def breaks(*_: object) -> None:
        raise RuntimeError("canary")

    monkeypatch.setattr(EffectBroker, "submit", breaks)
    answer = await api.submit()
    document = assert_problem(answer, 500, "internal_error")
    assert "canary" not in answer.text
    assert document["instance"].startswith("urn:uuid:")
    assert answer.headers["x-content-type-options"] == "nosniff"


async def test_output_that_utf8_or_json_cannot_hold_does_not_hide_its_receipt(
    api: Api,
) -> None:
    effect_id = await api.settled("order:1:charge:v1", "lose_answer")
    effect = (await api.agent.get(f"/v1/effects/{effect_id}")).json()
    settled = await api.world.broker.resolve(
        api.world.tenant.tenant_id,
        UUID(effect_id),
        Finding(
            decision=Decision.COMMITTED,
            reason="seen",
            evidence={},
            expected_version=effect["version"],
            decision_id="d-1",
            actor="operator:ann",
            output={"note": "\ud800", "n": 10**40},
        ),
    )
    assert settled.version == effect["version"] + 1
    for answer in (
        await api.agent.get(f"/v1/effects/{effect_id}/receipt"),
        await api.submit(),
    ):
        assert answer.status_code == 200
        body = json.loads(answer.content)
        output = body.get("output") or body["receipt"]["output"]
        assert output == {"note": "\ud800", "n": 10**40}


async def _away() -> None:
    raise SchemaMismatch("The ledger's schema is older or newer than this release.")
