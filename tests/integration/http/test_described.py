"""The served description is kept: generated requests find no defect and no surprise."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import httpx2
import psycopg
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, reject, settings, strategies
from hypothesis.errors import Unsatisfiable
from schemathesis import checks
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.schemas import OpenApiSchema

from effect_broker.surfaces.openapi import OPERATIONS
from tests.integration.cli.test_plain_process import Shell
from tests.integration.functions.invoking import CONTRACTS, charge

EXAMPLES = 40
"""Generated requests of each route and kind; the run takes half a minute."""

HELD_TO = [
    checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
    checks.response_headers_conformance,
    checks.unsupported_method,
    checks.ignored_auth,
]


@dataclass(frozen=True)
class Served:
    """Where a broker answers, an operator's header, and effects in several states."""

    address: str
    headers: dict[str, str]
    effects: list[str]


@pytest.fixture(scope="module")
def served(
    database_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    """Yield a broker that runs as a process of its own."""
    shell = Shell(database_url)
    # Nobody reads what it logs, and a full pipe would stop it.
    shell.environment["EFFECT_BROKER_LOG_LEVEL"] = "ERROR"
    contracts = tmp_path_factory.mktemp("contracts") / "contracts.toml"
    contracts.write_text(CONTRACTS)
    shell.lines("contracts", "publish", str(contracts))
    shell.lines("tenants", "create", "acme")
    scopes = [it for scope in ("submit", "read", "operate") for it in ("--scope", scope)]
    (made,) = shell.lines("keys", "create", "acme", *scopes)
    with shell.serving() as (address, _):
        headers = {"Authorization": f"Bearer {made['key']}"}
        with httpx2.Client(base_url=address, headers=headers) as caller:
            effects = [
                caller.post("/v1/effects", json=charge(f"order:{it}:charge")).json()
                for it in range(3)
            ]
        _make_unknown(database_url, effects[0]["effect_id"])
        yield Served(address, headers, [str(it["effect_id"]) for it in effects])


def _make_unknown(url: str, effect_id: str) -> None:
    """Park one effect as if its worker had died and a person had to look."""
    with psycopg.connect(url) as connection:
        connection.execute(
            "UPDATE effect_broker.effect_work SET status = 'outcome_unknown', lane = 1,"
            " unknown_since = now(), due_at = 'infinity', attempts = 1, unproven = 1,"
            " settlement_at = now() WHERE effect_id = %s",
            [effect_id],
        )


@pytest.fixture(scope="module")
def described(served: Served) -> OpenApiSchema:
    return schemathesis.openapi.from_url(f"{served.address}/openapi.json")


@pytest.mark.parametrize(
    ("operation_id", "mode"),
    [
        (operation_id, mode)
        for operation_id, operation in sorted(OPERATIONS.items())
        for mode in schemathesis.GenerationMode
        if not operation.public or mode is schemathesis.GenerationMode.POSITIVE
    ],
)
def test_generated_requests_meet_no_defect_and_no_undocumented_answer(
    operation_id: str,
    mode: schemathesis.GenerationMode,
    described: OpenApiSchema,
    served: Served,
) -> None:
    found = [it.ok() for it in described.get_all_operations() if isinstance(it, Ok)]
    (operation,) = (
        it for it in found if it.definition.raw["operationId"] == operation_id
    )

    # A mutated query may say nothing on the wire; a mutated body always does.
    mutated = [checks.negative_data_rejection] if operation.method == "post" else []
    held_to = [*HELD_TO, *mutated]

    @given(strategies.data())
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def conforms(data: strategies.DataObject) -> None:
        named = None
        if "{effect_id}" in operation.path:
            known = data.draw(strategies.sampled_from([None, *served.effects]))
            named = None if known is None else {"effect_id": known}
        try:
            case = data.draw(operation.as_strategy(mode, path_parameters=named))
        except Unsatisfiable:
            reject()
        case.call_and_validate(headers=served.headers, checks=held_to)

    conforms()
