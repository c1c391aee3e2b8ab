"""The targets under test: each kind of shipped adapter before a target with books."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any
from uuid import UUID

from effect_broker.adapters.simulated import SimulatedAdapters
from effect_broker.adapters.simulated_target import Act, SimulatedTarget
from effect_broker.conformance import (
    CannedAnswer,
    Fault,
    HttpTargetUnderTest,
    SeenRequest,
)
from effect_broker.domain.canonical import canonical
from effect_broker.domain.contract import EffectContract, KeyRecords
from effect_broker.domain.intent import EffectRecord
from effect_broker.ports import AdapterSource, Clock
from tests.conformance.booked_target import BookedTarget

MEANING = {
    "2xx": "committed",
    "400": "rejected_final",
    "409/in_use": "in_progress",
    "409/key_reused": "key_conflict",
    "code": "/error/code",
}


def times(safety: str) -> dict[str, Any]:
    document: dict[str, Any] = {
        "attempt_timeout": "2s",
        "lease": "10s",
        "settlement_bound": "30s",
        "backoff": {"initial": "1s", "factor": 1.0, "max": "1s", "jitter": 0.0},
    }
    if safety == "idempotent":
        document["key_retention"] = "24h"
    return document


class BookedHttp(HttpTargetUnderTest):
    """The `http` adapter, or one of one's own, before the booked target."""

    arguments: Mapping[str, Any] = {"amount": 100}
    other_arguments: Mapping[str, Any] = {"amount": 999}
    in_progress = CannedAnswer(409, b'{"error":{"code":"in_use"}}')
    forgets_keys = True

    def __init__(
        self,
        safety: str = "idempotent",
        *,
        target: BookedTarget | None = None,
        adapter: str = "http",
        http: Mapping[str, Any] | None = None,
        **terms: Any,
    ) -> None:
        super().__init__()
        keyed = safety == "idempotent"
        self.target = target or BookedTarget(
            honours_keys=keyed, keeps=KeyRecords(terms.get("key_records", "successes"))
        )
        self._safety = safety
        self._adapter = adapter
        self._http = dict(http or {})
        self._terms = terms

    def contract_at(self, base_url: str) -> EffectContract:
        http: dict[str, Any] = {
            "url": f"{base_url}/v1/charges",
            "external_id": "/id",
            "allow_private": True,
            "meaning": MEANING,
        }
        if self._safety != "unsafe":
            http["key_header"] = "Idempotency-Key"
        document: dict[str, Any] = {
            "tool": "payments.charge",
            "name": "payments-charge",
            "version": "1",
            "safety": self._safety,
            "adapter": self._adapter,
            "arguments": {"type": "object"},
            "http": http | self._http,
            **times(self._safety),
        }
        terms = dict(self._terms)
        if "probe" in terms:
            url = f"{base_url}/v1/charges?reference={{downstream_key}}"
            terms["probe"] = {
                "url": url,
                "found": "/data/0",
                "external_id": "/data/0/id",
                **terms["probe"],
            }
        return EffectContract.model_validate(document | terms)

    async def reset(self) -> tuple[str, int]:
        return await self.target.start()

    async def close(self) -> None:
        await self.target.stop()

    async def effects(self) -> int:
        return len(self.target.charges)

    async def forget_keys(self) -> None:
        self.target.forget_keys()

    def plan(self, *faults: Fault) -> None:
        """Let the target hide its commits itself: what it then keeps is its own."""
        for fault in faults:
            if fault is Fault.HIDE_COMMIT:
                self.target.hide_next += 1
        super().plan(
            *(Fault.NONE if fault is Fault.HIDE_COMMIT else fault for fault in faults)
        )


ACTS = {
    Fault.NONE: Act.COMMIT,
    Fault.LOSE_REQUEST: Act.LOSE_REQUEST,
    Fault.LOSE_ANSWER: Act.LOSE_ANSWER,
    Fault.RESET: Act.LOSE_ANSWER,
    Fault.CUT_BODY: Act.CUT_ANSWER,
    Fault.HIDE_COMMIT: Act.HIDE_COMMIT,
    Fault.IN_PROGRESS: Act.IN_PROGRESS,
}


class Simulated:
    """The `simulated` adapter; its target stands in this process, and so does the wire.

    The target records the digest of a body; the body itself is found by it.
    """

    arguments: Mapping[str, Any] = {"amount": 100}
    other_arguments: Mapping[str, Any] = {"amount": 999}
    faults = frozenset(ACTS)
    lookup_faults: frozenset[Fault] = frozenset()
    forgets_keys = False

    def __init__(self, safety: str = "idempotent", **terms: Any) -> None:
        document: dict[str, Any] = {
            "tool": "sim.charge",
            "name": "sim-charge",
            "version": "1",
            "safety": safety,
            "adapter": "simulated",
            "arguments": {"type": "object"},
            **times(safety),
        }
        self.contract = EffectContract.model_validate(document | terms)

    async def start(self, clock: Clock) -> AdapterSource:
        self._planned: list[Fault] = []
        self._turns: Counter[UUID] = Counter()
        self._bodies: dict[bytes, bytes] = {}
        self.target = SimulatedTarget(clock)
        return SimulatedAdapters(clock, target=self.target, script=self._script)

    async def stop(self) -> None:
        """Nothing is left open."""

    def plan(self, *faults: Fault) -> None:
        self._planned.extend(faults)

    def plan_lookups(self, *faults: Fault) -> None:
        raise NotImplementedError

    def requests(self) -> Sequence[SeenRequest]:
        return [
            SeenRequest(
                connection=0,
                method="SIMULATED",
                target="/",
                headers=(("key", seen.key or ""),),
                body=self._bodies[seen.body_digest],
            )
            for seen in self.target.requests
        ]

    def key_of(self, request: SeenRequest) -> str | None:
        return request.header("key") or None

    async def effects(self) -> int:
        return len(self.target.objects)

    async def forget_keys(self) -> None:
        raise NotImplementedError

    def _script(self, effect: EffectRecord) -> Sequence[str]:
        """Give the next act of the target, whichever effect asks for it."""
        body = canonical(dict(effect.request.arguments))
        self._bodies[sha256(body).digest()] = body
        turn = self._turns[effect.effect_id]
        self._turns[effect.effect_id] += 1
        fault = self._planned.pop(0) if self._planned else Fault.NONE
        return [*[Act.COMMIT] * turn, ACTS[fault]]
