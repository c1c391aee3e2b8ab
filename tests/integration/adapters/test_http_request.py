"""What a dispatch puts on the wire."""

from __future__ import annotations

import hashlib
from datetime import datetime

import pytest

from effect_broker.adapters.wire.connections import Connections
from effect_broker.domain.canonical import canonical
from effect_broker.domain.outcome import Ambiguous, Committed, NotSent
from tests.guarantees import guarantee
from tests.integration.adapters.fault_server import FaultServer, answer
from tests.integration.adapters.given import (
    ARGUMENTS,
    ATTEMPT,
    KEY,
    GivenSecrets,
    ManualClock,
    contract,
)
from tests.integration.adapters.sending import Sender


async def test_one_request_carries_the_stored_key_and_the_canonical_arguments(
    target: FaultServer, connections: Connections
) -> None:
    outcome = await Sender(connections).dispatch(contract(target.url))
    assert isinstance(outcome, Committed)
    assert outcome.external_id == "ch_1"
    (seen,) = target.seen
    assert (seen.method, seen.target) == ("POST", "/v1/charges")
    assert seen.header("Idempotency-Key") == KEY
    assert seen.header("X-Effect-Attempt") == str(ATTEMPT)
    assert seen.header("Content-Type") == "application/json"
    assert seen.body == canonical(ARGUMENTS) == b'{"amount":100,"currency":"eur"}'
    assert outcome.evidence["request_digest"] == hashlib.sha256(seen.body).hexdigest()


@guarantee("same-downstream-key")
async def test_every_attempt_sends_the_same_key_and_body(
    target: FaultServer, connections: Connections
) -> None:
    sender = Sender(connections)
    first = await sender.dispatch(contract(target.url))
    second = await sender.dispatch(
        contract(target.url), arguments=dict(reversed(ARGUMENTS.items()))
    )
    one, two = target.seen
    assert one.body == two.body
    assert one.header("Idempotency-Key") == two.header("Idempotency-Key")
    assert first.evidence["request_digest"] == second.evidence["request_digest"]


async def test_unsafe_target_never_sees_a_key_header(
    target: FaultServer, connections: Connections
) -> None:
    await Sender(connections).dispatch(
        contract(target.url, safety="unsafe", key_retention=None)
    )
    (seen,) = target.seen
    assert not [name for name, _ in seen.headers if "idempotency" in name.lower()]
    assert KEY not in repr(seen)
    assert seen.header("X-Effect-Attempt") == str(ATTEMPT)


async def test_quoted_key_is_quoted_on_the_wire(
    target: FaultServer, connections: Connections
) -> None:
    await Sender(connections).dispatch(contract(target.url, key_quoted=True))
    assert target.seen[0].header("Idempotency-Key") == f'"{KEY}"'


async def test_key_in_the_body_stands_at_its_pointer(
    target: FaultServer, connections: Connections
) -> None:
    http = {"key_header": None, "key_body": "/meta/key"}
    await Sender(connections).dispatch(contract(target.url, http=http))
    assert target.seen[0].body == canonical(ARGUMENTS | {"meta": {"key": KEY}})
    assert target.seen[0].header("Idempotency-Key") is None


async def test_form_body_flattens_what_is_nested(
    target: FaultServer, connections: Connections
) -> None:
    arguments = {"amount": 100, "live": True, "meta": {"b c": "ä&"}, "tags": ["x", None]}
    http = {"body": "form", "key_header": None, "key_body": "/key"}
    await Sender(connections).dispatch(
        contract(target.url, http=http), arguments=arguments
    )
    assert (
        target.seen[0].body
        == (
            f"amount=100&key={KEY}&live=true&meta%5Bb+c%5D=%C3%A4%26&tags%5B0%5D=x"
            "&tags%5B1%5D="
        ).encode()
    )
    assert target.seen[0].header("Content-Type") == "application/x-www-form-urlencoded"


async def test_arguments_fill_single_path_segments(
    target: FaultServer, connections: Connections
) -> None:
    schema = {
        "type": "object",
        "required": ["order"],
        "properties": {"order": {"type": "string"}},
    }
    http = {"url": f"{target.url}/orders/{{arguments.order}}/charge"}
    made = contract(target.url, http=http, arguments=schema)
    sender = Sender(connections)
    await sender.dispatch(made, arguments={"order": "a/../b?x=1#y @evil.example:80"})
    assert target.seen[0].target == (
        "/orders/a%2F..%2Fb%3Fx%3D1%23y%20%40evil.example%3A80/charge"
    )
    refused = await sender.dispatch(made, arguments={"order": ".."})
    assert isinstance(refused, NotSent)
    assert len(target.seen) == 1


async def test_deadline_header_says_until_when_the_target_may_accept(
    target: FaultServer, connections: Connections
) -> None:
    clock = ManualClock()
    http = {"target_enforces_deadline": "X-Send-Deadline"}
    await Sender(connections, clock=clock).dispatch(
        contract(target.url, http=http), deadline=clock.deadline_in(2.5)
    )
    text = target.seen[0].header("X-Send-Deadline")
    assert text == "2026-01-01T00:00:02.500Z"
    assert datetime.fromisoformat(text).timestamp() == clock.wall() + 2.5


async def test_secrets_fill_headers_and_the_base_url(
    target: FaultServer, connections: Connections
) -> None:
    secrets = GivenSecrets(**{"payments/token": "s3cret", "payments/base": target.url})
    http = {
        "url": "/v1/charges",
        "base_url": {"secret": "payments/base"},
        "headers": {"Authorization": {"secret": "payments/token", "prefix": "Bearer "}},
    }
    await Sender(connections, secrets=secrets).dispatch(contract(http=http))
    assert target.seen[0].header("Authorization") == "Bearer s3cret"
    assert target.seen[0].target == "/v1/charges"


async def test_credential_that_cannot_stand_in_a_header_sends_nothing(
    target: FaultServer, connections: Connections
) -> None:
    http = {"headers": {"Authorization": {"secret": "t"}}}
    for value in ("two\r\nlines", "line\nfeed", "€"):
        outcome = await Sender(connections, secrets=GivenSecrets(t=value)).dispatch(
            contract(target.url, http=http)
        )
        assert isinstance(outcome, NotSent), value
        assert value not in repr(outcome)
    assert target.seen == []


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_redirect_is_not_followed_and_proves_nothing(
    target: FaultServer, connections: Connections, status: int
) -> None:
    target.plan(answer(status, {}, {"Location": f"{target.url}/elsewhere"}))
    outcome = await Sender(connections).dispatch(contract(target.url))
    assert isinstance(outcome, Ambiguous)
    assert [seen.target for seen in target.seen] == ["/v1/charges"]


async def test_cookies_proxies_and_encodings_of_the_client_do_not_exist(
    target: FaultServer, connections: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("HTTP_PROXY", "ALL_PROXY", "http_proxy", "all_proxy"):
        monkeypatch.setenv(variable, "http://127.0.0.1:9")
    target.plan(answer(201, {"id": "ch_1"}, {"Set-Cookie": "session=1"}))
    sender = Sender(connections)
    for _ in range(2):
        assert isinstance(await sender.dispatch(contract(target.url)), Committed)
    assert {seen.header("Cookie") for seen in target.seen} == {None}
    assert {seen.header("Accept-Encoding") for seen in target.seen} == {"identity"}


async def test_unauthorised_answer_starts_no_second_request(
    target: FaultServer, connections: Connections
) -> None:
    target.plan(answer(401, {}, {"WWW-Authenticate": 'Digest realm="x", nonce="y"'}))
    outcome = await Sender(connections).dispatch(contract(target.url))
    assert isinstance(outcome, Ambiguous)
    assert len(target.seen) == 1
