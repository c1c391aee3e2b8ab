"""The demo target loses answers on request, and says what it saw."""

import hashlib
import json
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from http.client import HTTPException, IncompleteRead, RemoteDisconnected
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from examples.crash_matrix.target.client import RunningTarget, TargetRefused, run_target
from tests.integration.target_calls import charge_body, connect, get, keyed, post, talk


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningTarget]:
    with run_target(tmp_path_factory.mktemp("target") / "charges.db") as target:
        yield target


@pytest.fixture
def target(running: RunningTarget) -> RunningTarget:
    running.reset()
    return running


# Faults


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize(
    ("ending", "error", "outcome"),
    [
        ("drop", RemoteDisconnected, "dropped"),
        ("reset", ConnectionResetError, "reset"),
    ],
)
def test_connection_ends_without_an_answer_before_or_after_the_commit(
    target: RunningTarget,
    moment: str,
    ending: str,
    error: type[OSError],
    outcome: str,
) -> None:
    target.fault(f"{ending}_{moment}_commit")
    with pytest.raises(error) as lost:
        post(target, "plain")
    assert type(lost.value) is error
    committed = moment == "after"
    assert len(target.charges()) == int(committed)
    (seen,) = target.posts("order-1")
    assert seen.outcome == outcome
    assert (seen.charge_id is not None) is committed


def test_fault_can_hit_the_second_request_of_a_reused_connection(
    target: RunningTarget,
) -> None:
    target.fault("reset_after_commit", order="second")
    with closing(connect(target)) as connection:
        first = charge_body("first")
        assert talk(connection, "POST", "/plain/charges", first).status == 201
        with pytest.raises(ConnectionResetError):
            talk(connection, "POST", "/plain/charges", charge_body("second"))
    first_seen, second_seen = target.posts()
    assert first_seen.connection_id == second_seen.connection_id
    assert len(target.charges("second")) == 1


def test_truncated_answer_has_a_status_and_half_a_body(target: RunningTarget) -> None:
    target.fault("truncate_after_commit")
    with closing(connect(target)) as connection:
        connection.request("POST", "/plain/charges", charge_body())
        response = connection.getresponse()
        assert response.status == 201
        with pytest.raises(IncompleteRead) as cut:
            response.read()
    assert cut.value.partial.startswith(b'{"id": "ch_')
    assert len(target.charges()) == 1


def test_garbage_answer_is_a_commit_that_cannot_be_parsed(
    target: RunningTarget,
) -> None:
    target.fault("garbage_after_commit")
    reply = post(target, "plain")
    assert reply.status == 201
    with pytest.raises(ValueError, match="can't decode"):
        json.loads(reply.raw)
    assert len(target.charges()) == 1


def test_huge_body_and_gzip_bomb_hide_a_commit_in_bulk(target: RunningTarget) -> None:
    target.fault("huge_body", mebibytes=2)
    target.fault("gzip_bomb_after_commit", mebibytes=8)
    huge, bomb = post(target, "plain"), post(target, "plain")
    assert len(huge.raw) > 2 * 1024 * 1024
    assert bomb.headers["Content-Encoding"] == "gzip"
    assert len(bomb.raw) < 100_000
    unpacked = json.loads(zlib.decompress(bomb.raw, wbits=31))
    assert len(unpacked["padding"]) == 8 * 1024 * 1024
    assert [huge.json["id"], unpacked["id"]] == [row.id for row in target.charges()]


def test_slow_body_and_delays_still_answer_in_full(target: RunningTarget) -> None:
    for fault in ("slow_body", "delay_before_commit", "delay_after_commit"):
        target.fault(fault, seconds=0.02)
    assert [post(target, "plain").status for _ in range(3)] == [201, 201, 201]
    assert target.faults_left() == []


def test_redirect_charges_nothing_where_it_stands(target: RunningTarget) -> None:
    target.fault("redirect", location="/plain/charges?elsewhere")
    reply = post(target)
    assert reply.status == 307
    assert reply.headers["Location"] == "/plain/charges?elsewhere"
    assert target.charges() == []


def test_caller_that_went_away_does_not_stop_the_commit(
    target: RunningTarget,
) -> None:
    target.fault("hold_before_commit")
    with closing(connect(target)) as connection:
        connection.request("POST", "/plain/charges", charge_body())
        (held,) = target.wait_held()
        assert (held.order, held.stage) == ("order-1", "before_commit")
    assert target.charges() == []
    target.release()
    assert len(target.charges("order-1")) == 1
    assert target.posts()[0].outcome == "client_gone"


def test_deadline_is_checked_when_a_held_request_would_commit(
    target: RunningTarget,
) -> None:
    target.fault("hold_before_commit")
    with ThreadPoolExecutor() as pool:
        held = pool.submit(post, target, "plain", X_Send_Deadline="2020-01-01T00:00:00Z")
        target.wait_held()
        target.settings(enforce_deadline=True)
        target.release()
        assert held.result().code == "deadline_passed"
    assert target.charges() == []


def test_fault_waits_for_the_world_and_order_it_names(target: RunningTarget) -> None:
    target.fault("status", status=500, world="lookup", order="order-2", times=2)
    assert post(target, "lookup").status == 201
    assert post(target, "plain", charge_body("order-2")).status == 201
    statuses = [post(target, "lookup", charge_body("order-2")).status for _ in range(3)]
    assert statuses == [500, 500, 201]


def test_lookup_fault_leaves_posts_alone(target: RunningTarget) -> None:
    target.fault("status", on="lookup", order="order-1", status=503)
    assert keyed(target).status == 201
    assert get(target, "/keyed/charges?key=k1").status == 503
    assert get(target, "/keyed/charges?key=k1").status == 200
    assert [seen.method for seen in target.requests("order-1")] == ["POST", "GET", "GET"]


# Control


def test_request_log_holds_the_wire_facts(target: RunningTarget) -> None:
    body = charge_body(reference="r")
    post(target, "lookup", body, Idempotency_Key='"k=1"', X_Trace="t")
    (seen,) = target.posts("order-1")
    assert seen.idempotency_key == '"k=1"'
    assert seen.body_sha256 == hashlib.sha256(body).hexdigest()
    assert {"Idempotency-Key", "X-Trace"} <= set(seen.header_names)
    assert (seen.world, seen.path, seen.reference) == ("lookup", "/lookup/charges", "r")
    assert (seen.outcome, seen.status) == ("answered", 201)
    assert seen.charge_id == target.charges()[0].id


def test_charges_and_keys_survive_the_death_of_the_process(tmp_path: Path) -> None:
    database = tmp_path / "charges.db"
    with run_target(database) as first:
        first.settings(key_records="commits")
        first.fault("hold_after_commit")
        with closing(connect(first)) as connection:
            connection.request(
                "POST", "/keyed/charges", charge_body(), {"Idempotency-Key": "k1"}
            )
            first.wait_held()
            first.kill()
            with pytest.raises((HTTPException, OSError)):
                connection.getresponse()
    with run_target(database) as second:
        assert second.settings()["key_records"] == "commits"
        assert len(second.charges("order-1")) == 1
        assert keyed(second).headers["Idempotent-Replayed"] == "true"
        assert len(second.charges("order-1")) == 1


def test_reset_clears_all_and_stops_what_is_under_way(target: RunningTarget) -> None:
    target.settings(retention_seconds=5)
    target.fault("hold_before_commit")
    target.fault("status", status=500)
    with ThreadPoolExecutor() as pool:
        held = pool.submit(keyed, target)
        target.wait_held()
        target.reset()
        with pytest.raises(RemoteDisconnected):
            held.result()
    assert (target.charges(), target.requests(), target.faults_left()) == ([], [], [])
    assert target.settings()["retention_seconds"] == 86_400
    assert keyed(target).status == 201


def test_wait_held_says_when_nothing_is_held(target: RunningTarget) -> None:
    with pytest.raises(TimeoutError):
        target.wait_held("order-1", seconds=0.01)


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda target: target.settings(key_records="some"), "key_records"),
        (lambda target: target.settings(retention=1), "retention"),
        (lambda target: target.settings(retention_seconds=-1), "retention_seconds"),
        (lambda target: target.fault("explode"), "fault is one of"),
        (lambda target: target.fault("status", when="now"), "when"),
        (lambda target: target.fault("status", status="500"), "status"),
        (lambda target: target.fault("redirect"), "location"),
        (lambda target: target.fault("redirect", location="/\n"), "location"),
        (lambda target: target.charges(world="other"), "world"),
        (lambda target: target.forget_faults(""), "order"),
    ],
)
def test_control_names_what_it_refuses(
    target: RunningTarget, call: object, named: str
) -> None:
    assert callable(call)
    with pytest.raises(TargetRefused, match=named):
        call(target)
    assert target.faults_left() == []


def test_faults_of_one_order_are_forgotten_and_of_no_other(target: RunningTarget) -> None:
    target.fault("hold_before_commit", order="ord_1", times=3)
    target.fault("status", order="ord_2")
    target.fault("status")
    assert target.forget_faults("ord_1") == 1
    assert [fault["order"] for fault in target.faults_left()] == ["ord_2", None]


def test_target_does_not_outlive_whoever_started_it(tmp_path: Path) -> None:
    with run_target(tmp_path / "charges.db") as target:
        assert target.process.stdin is not None
        target.process.stdin.close()
        assert target.process.wait(5) == 0


def test_taken_port_is_said_in_one_line(running: RunningTarget, tmp_path: Path) -> None:
    port = urlsplit(running.url).port
    assert port is not None
    with (
        pytest.raises(TargetRefused, match="Address already in use") as refused,
        run_target(tmp_path / "other.db", port=port),
    ):
        pass
    assert "Traceback" not in str(refused.value)
