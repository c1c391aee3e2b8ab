"""Invokes handlers with the events and contexts that Lambda gives them."""

from __future__ import annotations

import importlib.util
import json
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any, Final, Self

import psycopg

from effect_broker.aws.nudges import nudge_body
from tests.integration.broker.world import KEYRING as KEYRING

FUNCTIONS: Final = Path(__file__).parents[3] / "functions"
ARN: Final = "arn:aws:lambda:eu-central-1:123456789012:function:effect-broker-submit"
SWEEP: Final = {"operation": "sweep"}

CONTRACTS: Final = """
[[contracts]]
tool = "sim.charge"
name = "sim-charge"
version = "1"
safety = "idempotent"
adapter = "simulated"
attempt_timeout = "5s"
settlement_bound = "1s"
key_retention = "24h"
key_records = "all_answers"
backoff = { initial = "1ms", factor = 1.0, max = "1ms", jitter = 0.0 }

[contracts.arguments]
type = "object"
required = ["amount"]
additionalProperties = false
[contracts.arguments.properties]
amount = { type = "integer" }
simulate = { type = "array", items = { type = "string" } }
"""


@dataclass
class Context:
    """The part of the runtime's context that handlers read."""

    invoked_function_arn: str = f"{ARN}:live"
    milliseconds_left: int = 30_000

    def get_remaining_time_in_millis(self) -> int:
        return self.milliseconds_left


@dataclass
class Lambdas:
    """The environments of one deployment, each made at its function's first call."""

    keys: dict[str, str] = field(default_factory=dict)
    _modules: dict[str, ModuleType] = field(default_factory=dict)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for module in self._modules.values():
            module._environment.close()

    def set_up(self) -> None:
        """Make two tenants with a key each, and publish the contracts."""
        for slug in ("acme", "other"):
            self.invoke("migrate", {"operation": "create_tenant", "slug": slug})
            made = self.invoke(
                "migrate",
                {
                    "operation": "create_key",
                    "tenant": slug,
                    "scopes": ["submit", "read"],
                },
            )
            self.keys[slug] = made["key"]
        self.invoke("migrate", {"operation": "publish_contracts"})

    def environment(self, name: str) -> Any:
        """Return the environment of a function that was invoked before."""
        return self._module(name)._environment

    def invoke(
        self,
        name: str,
        event: Any,
        *,
        arn: str = f"{ARN}:live",
        milliseconds_left: int = 30_000,
    ) -> Any:
        """Invoke a function; what comes back has been JSON, as on Lambda."""
        context = Context(arn, milliseconds_left)
        return json.loads(json.dumps(self._module(name).handler(event, context)))

    def direct(self, event: Any, *, slug: str = "acme") -> Any:
        """Invoke submit through a tenant's alias."""
        return self.invoke("submit", event, arn=f"{ARN}:tenant-{slug}")

    def http(
        self, method: str, path: str, body: object = None, *, slug: str = "acme"
    ) -> tuple[dict[str, Any], Any]:
        """Send a request through the gateway; return its answer and the parsed body."""
        text = body if isinstance(body, str) or body is None else json.dumps(body)
        event = http_event(method, path, text, key=self.keys.get(slug, ""))
        answer = self.invoke("submit", event)
        assert answer["isBase64Encoded"] is False
        return answer, json.loads(answer["body"])

    def _module(self, name: str) -> ModuleType:
        if name not in self._modules:
            path = FUNCTIONS / name / "handler.py"
            spec = importlib.util.spec_from_file_location(f"lambda_{name}", path)
            assert spec is not None
            assert spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            self._modules[name] = module
        return self._modules[name]


def http_event(
    method: str, path: str, body: str | None = None, *, key: str = ""
) -> dict[str, Any]:
    """Return an HTTP API event, payload format 2.0."""
    path, _, query = path.partition("?")
    return {
        "version": "2.0",
        "routeKey": "$default",
        "rawPath": path,
        "rawQueryString": query,
        "headers": {
            "authorization": f"Bearer {key}",
            "content-type": "application/json",
            "host": "api.example",
        },
        "requestContext": {
            "http": {
                "method": method,
                "path": path,
                "protocol": "HTTP/1.1",
                "sourceIp": "127.0.0.1",
                "userAgent": "test",
            },
            "stage": "$default",
        },
        "body": body,
        "isBase64Encoded": False,
    }


READ_DIFFERENTLY: Final = ['1, "amount": 100', "NaN", "1e400", '"\\ud800"', '"\ud800"']
"""In the place of an amount: texts of which parsers make different things, or none."""


def effects(url: str) -> int:
    """Return how many effects a ledger holds."""
    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT count(*) FROM effect_broker.effects").fetchone()
    assert row is not None
    return int(row[0])


def charge(key: str = "order:1:charge:v1", amount: int = 100, *acts: str) -> Any:
    """Return a submission; `acts` play the target."""
    arguments: dict[str, Any] = {"amount": amount}
    if acts:
        arguments["simulate"] = list(acts)
    return {"operation_key": key, "tool": "sim.charge", "arguments": arguments}


def nudges(*effect_ids: str) -> dict[str, Any]:
    """Return an SQS batch; what is no effect id is sent as the body itself."""
    bodies = [
        nudge_body(it) if len(it) == 36 else it  # type: ignore[arg-type]
        for it in effect_ids
    ]
    return {
        "Records": [
            {"messageId": f"m{number}", "body": body}
            for number, body in enumerate(bodies)
        ]
    }
