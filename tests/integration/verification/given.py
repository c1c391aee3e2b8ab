"""Contracts of the demo target with a sandbox, honest and lying ones."""

from __future__ import annotations

from typing import Any

from effect_broker.domain.contract import EffectContract

ARGUMENTS = {"amount": 100, "currency": "eur", "order": "verify"}


def contract(url: str, world: str, safety: str, **changes: Any) -> EffectContract:
    """Return a contract of one world of the target at `url`."""
    http: dict[str, Any] = {
        "url": f"/{world}/charges",
        "base_url": "https://production.invalid",
        "external_id": "/id",
        "account": "demo",
        "mode": "live",
        "allow_private": True,
        "meaning": {
            "code": "/error/code",
            "2xx": "committed",
            "402/card_declined": "rejected_final",
            "409/idempotency_key_in_use": "in_progress",
            "409/idempotency_key_reuse": "key_conflict",
        },
    }
    fields: dict[str, Any] = {
        "tool": "demo.charge",
        "name": "demo-charge",
        "version": "1",
        "safety": safety,
        "adapter": "http",
        "attempt_timeout": "3s",
        "lease": "5s",
        "settlement_bound": "1s",
        "backoff": {"initial": "200ms", "factor": 2.0, "max": "5s", "jitter": 0.2},
        "arguments": {"type": "object"},
        "sandbox": {
            "base_url": url,
            "mode": "test",
            "arguments": ARGUMENTS,
            "other_arguments": {**ARGUMENTS, "amount": 101},
            "rejected_arguments": {**ARGUMENTS, "amount": 402},
        },
    }
    if safety == "idempotent":
        fields |= {"key_retention": "24h", "key_records": "all_answers"}
        http["key_header"] = "Idempotency-Key"
    if safety == "reconcilable":
        http["key_body"] = "/reference"
        fields["probe"] = {
            "url": f"/{world}/charges?reference={{downstream_key}}",
            "consistency": "strong",
            "found": "/data/0",
            "external_id": "/data/0/id",
            "match": "/data/0/reference",
        }
    return EffectContract.model_validate(fields | {"http": http} | changes)
