"""The target's own list, read to its end or not at all."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest

from effect_broker.adapters import http_listing
from effect_broker.adapters.http_listing import HttpLister
from effect_broker.clock import SystemClock
from effect_broker.domain.contract import EffectContract
from effect_broker.domain.errors import ContractInvalid, TargetUnreadable
from effect_broker.ports import TargetObject
from tests.integration.adapters.fault_server import FaultServer, answer, answer_bytes, cut
from tests.integration.adapters.given import GivenSecrets

AFTER, BEFORE = datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 3, 2, tzinfo=UTC)
LISTING: dict[str, Any] = {
    "url": "/charges?from={created_after}&to={created_before}&page={cursor}",
    "items": "/data",
    "external_id": "/id",
    "key": "/reference",
    "next_cursor": "/next",
}


def contract(target: FaultServer, **listing: Any) -> EffectContract:
    return EffectContract.model_validate(
        {
            "tool": "pay.charge",
            "name": "pay-charge",
            "version": "1",
            "safety": "unsafe",
            "adapter": "http",
            "attempt_timeout": "5s",
            "settlement_bound": "1s",
            "arguments": {"type": "object"},
            "http": {
                "url": "/charges",
                "base_url": target.url,
                "headers": {"Authorization": {"secret": "pay/token"}},
                "meaning": {"2xx": "committed"},
                "allow_private": True,
            },
            "listing": LISTING | listing,
        }
    )


@pytest.fixture
async def lister() -> AsyncIterator[HttpLister]:
    made = HttpLister(GivenSecrets(**{"pay/token": "s3cret"}), SystemClock())
    yield made
    await made.aclose()


def page(*ids: str, cursor: str | None = None) -> dict[str, Any]:
    return {"data": [{"id": it, "reference": f"k-{it}"} for it in ids], "next": cursor}


async def test_every_page_is_read_in_order(
    target: FaultServer, lister: HttpLister
) -> None:
    target.plan(
        answer(200, page("a", "b", cursor="p 2")),
        answer(200, page("c", cursor="p3")),
        answer(200, page()),
    )
    found = await lister.objects(contract(target), AFTER, BEFORE)
    assert found == [TargetObject(it, f"k-{it}") for it in "abc"]
    window = "from=2026-03-01T00%3A00%3A00.000Z&to=2026-03-02T00%3A00%3A00.000Z"
    assert [seen.target for seen in target.seen] == [
        f"/charges?{window}",
        f"/charges?{window}&page=p%202",
        f"/charges?{window}&page=p3",
    ]
    assert {seen.method for seen in target.seen} == {"GET"}
    assert {seen.header("Authorization") for seen in target.seen} == {"s3cret"}


async def test_instants_are_written_as_the_listing_wants_them(
    target: FaultServer, lister: HttpLister
) -> None:
    target.plan(answer(200, page()))
    await lister.objects(contract(target, time="unix"), AFTER, BEFORE)
    assert "from=1772323200&to=1772409600" in target.seen[0].target


@pytest.mark.parametrize(
    ("act", "why"),
    [
        (answer(500, {}), "status 500"),
        (answer(302, {}), "status 302"),
        (answer(200, {"items": []}), "no list"),
        (answer(200, {"data": [{"reference": "k"}]}), "no id"),
        (answer(200, {"data": [{"id": True}]}), "no id"),
        (cut(200, b'{"da'), "could not be read"),
        (answer_bytes(200, b"no!"), "could not be read"),
    ],
)
async def test_page_that_is_no_whole_answer_is_no_basis(
    target: FaultServer, lister: HttpLister, act: Any, why: str
) -> None:
    target.plan(answer(200, page("a", cursor="2")), act)
    with pytest.raises(TargetUnreadable, match=why):
        await lister.objects(contract(target), AFTER, BEFORE)


async def test_cursor_that_repeats_is_no_list(
    target: FaultServer, lister: HttpLister
) -> None:
    target.plan(*(answer(200, page("a", cursor="2")) for _ in range(3)))
    with pytest.raises(TargetUnreadable, match="repeats"):
        await lister.objects(contract(target), AFTER, BEFORE)


async def test_list_without_an_end_is_given_up(
    target: FaultServer, lister: HttpLister, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_listing, "PAGES_MAX", 3)
    target.plan(*(answer(200, page("a", cursor=str(n))) for n in range(9)))
    with pytest.raises(TargetUnreadable, match="pages"):
        await lister.objects(contract(target), AFTER, BEFORE)
    assert len(target.seen) == 3


async def test_contract_without_a_listing_is_refused(
    target: FaultServer, lister: HttpLister
) -> None:
    bare = contract(target).model_copy(update={"listing": None})
    with pytest.raises(ContractInvalid):
        await lister.objects(bare, AFTER, BEFORE)
    assert target.seen == []
