"""The demo target counts truly: what each world charges, remembers and tells."""

import hashlib
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from urllib.parse import quote, urlsplit

import pytest

from examples.crash_matrix.target.client import RunningTarget, run_target
from tests.integration.target_calls import charge_body, connect, get, keyed, post

PAST, FUTURE = "2020-01-01T00:00:00Z", "2999-01-01T00:00:00Z"
WORLDS = ("keyed", "lookup", "plain")


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningTarget]:
    with run_target(tmp_path_factory.mktemp("target") / "charges.db") as target:
        yield target


@pytest.fixture
def target(running: RunningTarget) -> RunningTarget:
    running.reset()
    return running


# The keyed world


def test_same_key_and_body_replays_the_stored_answer_and_charges_once(
    target: RunningTarget,
) -> None:
    first, second = keyed(target), keyed(target)
    assert (first.status, second.status) == (201, 201)
    assert first.raw == second.raw
    assert "Idempotent-Replayed" not in first.headers
    assert second.headers["Idempotent-Replayed"] == "true"
    assert len(target.charges("order-1")) == 1


def test_same_key_with_another_body_is_refused(target: RunningTarget) -> None:
    keyed(target)
    drifted = keyed(target, body=charge_body(amount=101))
    assert (drifted.status, drifted.code) == (409, "idempotency_key_reuse")
    assert [charge.amount for charge in target.charges("order-1")] == [100]


def test_key_is_in_use_until_the_first_request_has_committed(
    target: RunningTarget,
) -> None:
    target.fault("hold_before_commit")
    with ThreadPoolExecutor() as pool:
        first = pool.submit(keyed, target)
        target.wait_held("order-1")
        assert keyed(target).code == "idempotency_key_in_use"
        assert keyed(target, body=charge_body(amount=7)).code == "idempotency_key_reuse"
        assert target.charges() == []
        assert target.release("order-1") == 1
        assert first.result().status == 201
    assert keyed(target).headers["Idempotent-Replayed"] == "true"
    assert len(target.charges()) == 1


def test_twenty_concurrent_posts_under_one_key_charge_once(
    target: RunningTarget,
) -> None:
    with ThreadPoolExecutor(20) as pool:
        replies = list(pool.map(lambda _: keyed(target), range(20)))
    assert {reply.status for reply in replies} <= {201, 409}
    assert len(target.charges()) == 1


def test_keyless_posts_to_the_keyed_world_are_not_deduplicated(
    target: RunningTarget,
) -> None:
    post(target)
    post(target)
    assert len(target.charges()) == 2


@pytest.mark.parametrize(
    ("mode", "second", "replayed", "charges"),
    [
        ("all_answers", 503, True, 1),
        ("commits", 201, True, 1),
        ("successes", 201, False, 2),
    ],
)
def test_commit_hidden_behind_an_error_is_remembered_as_the_mode_says(
    target: RunningTarget, mode: str, second: int, replayed: bool, charges: int
) -> None:
    target.settings(key_records=mode)
    target.fault("fail_after_commit")
    assert keyed(target).status == 503
    assert len(target.charges()) == 1
    again = keyed(target)
    assert again.status == second
    assert ("Idempotent-Replayed" in again.headers) is replayed
    assert len(target.charges()) == charges


@pytest.mark.parametrize("status", [402, 500])
@pytest.mark.parametrize(
    ("mode", "kept"), [("all_answers", True), ("commits", False), ("successes", False)]
)
def test_error_without_a_commit_blocks_its_key_only_where_all_answers_are_kept(
    target: RunningTarget, mode: str, kept: bool, status: int
) -> None:
    target.settings(key_records=mode)
    target.fault("status", status=status)
    assert keyed(target).status == status
    assert target.charges() == []
    again = keyed(target)
    assert again.status == (status if kept else 201)
    assert ("Idempotent-Replayed" in again.headers) is kept


def test_refusal_in_front_of_the_record_is_never_kept(target: RunningTarget) -> None:
    target.fault("status", status=429, retry_after=7)
    limited = keyed(target)
    assert (limited.status, limited.code) == (429, "rate_limited")
    assert limited.headers["Retry-After"] == "7"
    assert keyed(target).status == 201
    target.fault("status", status=401)
    assert keyed(target).code == "unauthorized"
    assert len(target.charges()) == 1


def test_key_is_forgotten_when_its_retention_is_over(target: RunningTarget) -> None:
    keyed(target)
    target.settings(retention_seconds=0)
    assert "Idempotent-Replayed" not in keyed(target).headers
    target.settings(retention_seconds=None)
    assert keyed(target).headers["Idempotent-Replayed"] == "true"
    assert len(target.charges()) == 2


def test_lost_answer_leaves_the_key_free_to_replay(target: RunningTarget) -> None:
    target.fault("hold_after_commit")
    with closing(connect(target)) as lost:
        lost.request("POST", "/keyed/charges", charge_body(), {"Idempotency-Key": "k1"})
        target.wait_held()
    assert keyed(target).headers["Idempotent-Replayed"] == "true"
    target.release()
    assert [seen.outcome for seen in target.posts()] == ["client_gone", "answered"]
    assert len(target.charges()) == 1


@pytest.mark.parametrize("world", WORLDS)
def test_arrival_after_its_deadline_does_nothing(
    target: RunningTarget, world: str
) -> None:
    target.settings(enforce_deadline=True)
    assert post(target, world).code == "deadline_missing"
    assert post(target, world, X_Send_Deadline="soon").code == "deadline_invalid"
    late = post(target, world, X_Send_Deadline=PAST)
    assert (late.status, late.code) == (400, "deadline_passed")
    assert target.charges() == []
    assert post(target, world, X_Send_Deadline=FUTURE).status == 201


def test_keyed_charge_is_found_by_key_and_by_id(target: RunningTarget) -> None:
    created = keyed(target, "a key").json
    assert get(target, "/keyed/charges?key=a%20key").data == [created]
    assert get(target, f"/keyed/charges/{created['id']}").json == created
    assert get(target, "/keyed/charges?key=other").data == []
    assert get(target, "/keyed/charges/ch_other").status == 404


# The lookup and plain worlds


def test_lookup_world_ignores_keys_and_finds_by_reference(
    target: RunningTarget,
) -> None:
    body = charge_body(reference="ref-1")
    for _ in range(2):
        assert post(target, "lookup", body, Idempotency_Key="k1").status == 201
    found = get(target, "/lookup/charges?reference=ref-1").data
    assert [row["reference"] for row in found] == ["ref-1", "ref-1"]
    assert get(target, "/lookup/charges?reference=ref-2").data == []


def test_lookup_shows_a_charge_only_after_its_settlement_lag(
    target: RunningTarget,
) -> None:
    target.settings(settlement_lag_seconds=3600)
    post(target, "lookup", charge_body(reference="ref-1"))
    assert get(target, "/lookup/charges?reference=ref-1").data == []
    assert len(target.charges("order-1", "lookup")) == 1
    target.settings(settlement_lag_seconds=0)
    assert len(get(target, "/lookup/charges?reference=ref-1").data) == 1


def test_unknown_search_is_refused_instead_of_listing_everything(
    target: RunningTarget,
) -> None:
    post(target, "lookup")
    assert get(target, "/lookup/charges?order=order-9").code == "invalid_parameter"
    assert get(target, "/lookup/charges?reference=").code == "invalid_parameter"
    assert get(target, "/keyed/charges?reference=ref-1").code == "invalid_parameter"


def test_plain_world_charges_every_post_and_cannot_be_asked(
    target: RunningTarget,
) -> None:
    created = post(target, "plain", Idempotency_Key="k1").json
    post(target, "plain", Idempotency_Key="k1")
    assert len(target.charges("order-1", "plain")) == 2
    for path in ("", "?reference=r", "?key=k1", f"/{created['id']}"):
        assert get(target, f"/plain/charges{path}").status == 404


@pytest.mark.parametrize("world", WORLDS)
def test_audit_lists_the_charges_of_a_half_open_window(
    target: RunningTarget, world: str
) -> None:
    first, second = (post(target, world).json for _ in range(2))
    after, before = (quote(str(row["created_at"])) for row in (first, second))
    window = f"/{world}/charges?created_after={after}&created_before={before}"
    assert get(target, window).data == [first]
    assert len(get(target, f"/{world}/charges?created_after=0").data) == 2
    naive = get(target, f"/{world}/charges?created_after=2026-01-01T00:00:00")
    assert (naive.status, naive.code) == (400, "invalid_parameter")


# What is charged, and what is refused


def test_form_body_is_charged_like_json(target: RunningTarget) -> None:
    form = "application/x-www-form-urlencoded"
    body = b"amount=100&currency=EUR&order=order-1&reference=r%201"
    assert post(target, "plain", body, Content_Type=form).json["reference"] == "r 1"


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"{", 400),
        (b"[]", 400),
        (charge_body(amount=0), 422),
        (charge_body(amount=2**53), 422),
        (b'{"amount": "100", "currency": "EUR", "order": "o"}', 422),
        (b'{"amount": true, "currency": "EUR", "order": "o"}', 422),
        (b'{"amount": 100, "currency": "EUR"}', 422),
        (b'{"amount": 100, "currency": "EUR", "order": "\\ud800"}', 422),
        (charge_body(amount=402), 402),
    ],
)
def test_bad_or_declined_charge_commits_nothing(
    target: RunningTarget, body: bytes, status: int
) -> None:
    assert post(target, "plain", body).status == status
    assert target.charges() == []


def test_request_that_arrives_in_part_is_never_obeyed(target: RunningTarget) -> None:
    address = urlsplit(target.url)
    body = charge_body()
    head = f"POST /plain/charges HTTP/1.1\r\nContent-Length: {len(body) + 1}\r\n\r\n"
    with socket.create_connection((address.hostname, address.port)) as sock:
        sock.sendall(head.encode() + body)
        sock.shutdown(socket.SHUT_WR)
        assert sock.recv(1) == b""
    assert (target.charges(), target.requests()) == ([], [])


def test_chunked_body_is_read_whole(target: RunningTarget) -> None:
    body = charge_body()
    with closing(connect(target)) as connection:
        pieces = iter([body[:5], body[5:]])
        connection.request("POST", "/plain/charges", pieces, encode_chunked=True)
        assert connection.getresponse().status == 201
    assert target.posts()[0].body_sha256 == hashlib.sha256(body).hexdigest()
