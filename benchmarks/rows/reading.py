"""What it costs to read a request and to give its arguments one text."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from statistics import median
from typing import Any, Final

import rfc8785

from benchmarks.arithmetic import Measured
from benchmarks.bench import Bench
from effect_broker.domain.canonical import canonical, parse_strict

CALLS: Final = 200

ARGUMENTS: Final[dict[str, Any]] = {
    "amount": 12_500,
    "currency": "eur",
    "ratio": 0.125,
    "customer": {"id": "cus_8c1f2", "name": "Zoë Quispe", "tags": ["vip", "eu", None]},
    "lines": [
        {"sku": f"sku-{number:04}", "count": number, "price": 995, "gift": False}
        for number in range(11)
    ],
    "note": "Deliver before noon, ring twice. " * 7,
}
"""An order as tools take them: money in its smallest unit, a double here and there."""


async def canonical_form(bench: Bench) -> Measured:
    """Measure the canonical form, in microseconds, beside the reference library's.

    `strict_parse_us` is the strict reading of the bytes that come before it.
    """
    raw = json.dumps(ARGUMENTS).encode()
    assert canonical(parse_strict(raw)) == rfc8785.dumps(ARGUMENTS)
    ours, reference, parse = [], [], []
    for _ in range(bench.size(30, quick=10)):
        ours.append(_microseconds(lambda: canonical(ARGUMENTS)))
        reference.append(_microseconds(lambda: rfc8785.dumps(ARGUMENTS)))
        parse.append(_microseconds(lambda: parse_strict(raw)))
    return Measured(
        median(ours),
        {
            "reference_us": median(reference),
            "strict_parse_us": median(parse),
            "bytes": len(raw),
        },
    )


def _microseconds(call: Callable[[], Any]) -> float:
    begun = time.perf_counter()
    for _ in range(CALLS):
        call()
    return (time.perf_counter() - begun) / CALLS * 1e6
