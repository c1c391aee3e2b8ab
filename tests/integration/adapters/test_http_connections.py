"""Who shares a connection with whom, and where one may lead."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from effect_broker.adapters.wire.connections import IDLE_SECONDS_MAX, Connections
from effect_broker.clock import SystemClock
from effect_broker.domain.outcome import Ambiguous, Committed, NotSent
from tests.integration.adapters import fault_server as faults
from tests.integration.adapters.fault_server import FaultServer, answer, fault_server
from tests.integration.adapters.given import (
    OTHER_TENANT,
    TENANT,
    GivenSecrets,
    ManualClock,
    contract,
)
from tests.integration.adapters.sending import Sender


def resolving(**names: list[str]) -> Callable[[str, int], object]:
    asked: list[str] = []

    async def resolve(host: str, port: int) -> list[str]:
        asked.append(host)
        return names[host.partition(".")[0]]

    resolve.asked = asked  # type: ignore[attr-defined]
    return resolve


async def test_connection_is_kept_for_the_same_tenant_and_credential(
    target: FaultServer, connections: Connections
) -> None:
    sender = Sender(connections)
    for _ in range(3):
        await sender.dispatch(contract(target.url))
    assert [seen.connection for seen in target.seen] == [0, 0, 0]


async def test_connection_is_shared_with_no_other_tenant_contract_or_credential(
    target: FaultServer, connections: Connections
) -> None:
    secrets = GivenSecrets(token="one")
    sender = Sender(connections, secrets=secrets)
    http = {"headers": {"Authorization": {"secret": "token"}}}
    first = contract(target.url, http=http)
    await sender.dispatch(first, tenant_id=TENANT)
    await sender.dispatch(first, tenant_id=OTHER_TENANT)
    await sender.dispatch(contract(target.url, http=http, version="2"), tenant_id=TENANT)
    secrets.values["token"] = "two"
    await sender.dispatch(first, tenant_id=TENANT)
    assert [seen.connection for seen in target.seen] == [0, 1, 2, 3]


@pytest.mark.parametrize("clock_name", ["monotonic_now", "boottime_now"])
async def test_connection_that_idled_too_long_is_not_used_again(
    target: FaultServer, clock_name: str
) -> None:
    clock = ManualClock()
    connections = Connections(clock)
    sender = Sender(connections, clock=clock)
    await sender.dispatch(contract(target.url))
    setattr(clock, clock_name, getattr(clock, clock_name) + IDLE_SECONDS_MAX + 0.1)
    await sender.dispatch(contract(target.url))
    await target.until_left(0)
    assert [seen.connection for seen in target.seen] == [0, 1]
    await connections.aclose()


async def test_connection_that_the_target_has_closed_is_not_used_again(
    target: FaultServer, connections: Connections
) -> None:
    async def answer_and_leave(peer: faults.Peer) -> bool:
        await peer.send(faults.raw(201, b"{}"))
        return False

    target.plan(answer_and_leave)
    sender = Sender(connections)
    await sender.dispatch(contract(target.url))
    await target.until_left(0)
    await target.peers[0].writer.wait_closed()
    assert isinstance(await sender.dispatch(contract(target.url)), Committed)
    assert [seen.connection for seen in target.seen] == [0, 1]


def twice(pause: float | None) -> faults.Act:
    """Answer and, after a pause or in the same bytes, answer what nobody asked."""

    async def act(peer: faults.Peer) -> bool:
        first, surplus = (faults.raw(201, b'{"id":"%s"}' % it) for it in (b"a", b"b"))
        if pause is None:
            await peer.send(first + surplus)
            return True
        await peer.send(first)
        await asyncio.sleep(pause)
        await peer.send(surplus)
        return True

    return act


@pytest.mark.parametrize("pause", [None, 0.0, 0.05])
async def test_answer_that_nobody_asked_for_is_not_read_as_the_next_effects(
    target: FaultServer, connections: Connections, pause: float | None
) -> None:
    target.plan(twice(pause))
    sender = Sender(connections)
    first = await sender.dispatch(contract(target.url))
    await asyncio.sleep(0.1)
    second = await sender.dispatch(contract(target.url))
    assert isinstance(first, Committed)
    assert isinstance(second, Committed)
    assert (first.external_id, second.external_id) == ("a", "ch_1")
    assert [seen.connection for seen in target.seen] == [0, 1]


async def test_lookup_has_a_connection_of_its_own(
    target: FaultServer, connections: Connections
) -> None:
    probe = {
        "url": f"{target.url}/charges?key={{downstream_key}}",
        "consistency": "strong",
        "found": "/data/0",
    }
    made = contract(target.url, probe=probe)
    sender = Sender(connections)
    await sender.dispatch(made)
    await sender.probe(made)
    await sender.dispatch(made)
    assert [seen.connection for seen in target.seen] == [0, 1, 0]


async def test_connection_whose_answer_has_two_lengths_is_not_used_again(
    target: FaultServer, connections: Connections
) -> None:
    async def answer_in_two_lengths(peer: faults.Peer) -> bool:
        await peer.send(
            b"HTTP/1.1 201 Created\r\nContent-Type: application/json\r\n"
            b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"
            b"2\r\n{}\r\n0\r\n\r\n"
        )
        return True

    target.plan(answer_in_two_lengths)
    sender = Sender(connections)
    for _ in range(2):
        assert isinstance(await sender.dispatch(contract(target.url)), Committed)
    assert [seen.connection for seen in target.seen] == [0, 1]


async def test_attempts_at_once_use_connections_of_their_own(
    target: FaultServer, connections: Connections
) -> None:
    release = asyncio.Event()

    async def hold(peer: faults.Peer) -> bool:
        await release.wait()
        await peer.send(faults.raw(201, b"{}"))
        return True

    target.plan(hold, hold)
    sender = Sender(connections)
    running = [
        asyncio.create_task(sender.dispatch(contract(target.url))) for _ in range(2)
    ]
    await target.until_seen(2)
    release.set()
    outcomes = await asyncio.gather(*running)
    assert all(isinstance(outcome, Committed) for outcome in outcomes)
    assert {seen.connection for seen in target.seen} == {0, 1}


async def test_closing_leaves_nothing_open(
    target: FaultServer, connections: Connections
) -> None:
    await Sender(connections).dispatch(contract(target.url))
    await connections.aclose()
    await target.until_left(0)


@pytest.mark.parametrize(
    "addresses",
    [["127.0.0.1"], ["10.0.0.1"], ["8.8.8.8", "127.0.0.1"], ["::1"], ["::ffff:10.0.0.1"]],
)
async def test_private_address_is_refused_unless_the_contract_allows_it(
    addresses: list[str],
) -> None:
    connections = Connections(SystemClock(), resolve=resolving(payments=addresses))  # type: ignore[arg-type]
    made = contract("https://payments.example", http={"allow_private": False})
    outcome = await Sender(connections).dispatch(made)
    assert outcome == NotSent("address_refused", evidence=outcome.evidence)


async def test_metadata_address_is_refused_whatever_the_contract_allows() -> None:
    made = contract("http://169.254.169.254")
    outcome = await Sender(Connections(SystemClock())).dispatch(made)
    assert outcome == NotSent("address_refused", evidence=outcome.evidence)


async def test_name_is_resolved_once_and_the_judged_address_is_the_one_reached(
    target: FaultServer,
) -> None:
    answers = iter([["127.0.0.1"], ["169.254.169.254"]])
    asked: list[str] = []

    async def rebinding(host: str, port: int) -> list[str]:
        asked.append(host)
        return next(answers)

    connections = Connections(SystemClock(), resolve=rebinding)
    made = contract(f"http://payments.test:{target.port}")
    assert isinstance(await Sender(connections).dispatch(made), Committed)
    assert asked == ["payments.test"]
    assert target.seen[0].header("Host") == f"payments.test:{target.port}"
    await connections.aclose()


async def test_next_address_is_tried_where_one_does_not_answer(
    target: FaultServer,
) -> None:
    resolve = resolving(payments=["127.0.0.2", "127.0.0.1"])
    connections = Connections(SystemClock(), resolve=resolve)  # type: ignore[arg-type]
    made = contract(f"http://payments.test:{target.port}")
    assert isinstance(await Sender(connections).dispatch(made), Committed)
    assert len(target.seen) == 1
    await connections.aclose()


async def test_name_that_does_not_resolve_is_proof_that_nothing_was_sent() -> None:
    async def unknown(host: str, port: int) -> list[str]:
        raise OSError("no such name")

    made = contract("https://payments.example")
    outcome = await Sender(Connections(SystemClock(), resolve=unknown)).dispatch(made)
    assert outcome == NotSent("name_not_resolved", evidence=outcome.evidence)


async def test_plain_http_is_for_contracts_that_allow_private_addresses() -> None:
    made = contract("http://payments.example", http={"allow_private": False})
    outcome = await Sender(Connections(SystemClock())).dispatch(made)
    assert outcome == NotSent("plain_http_refused", evidence=outcome.evidence)


class Authority:
    """A certificate authority for one name and 127.0.0.1."""

    def __init__(self, folder: Path, name: str = "payments.test") -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        names = [x509.DNSName(name), x509.IPAddress(ip_address("127.0.0.1"))]
        now = datetime.now(UTC)
        certificate = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=1))
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .sign(key, hashes.SHA256())
        )
        self.file = folder / "certificate.pem"
        private = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        self.file.write_bytes(
            private + certificate.public_bytes(serialization.Encoding.PEM)
        )

    def server(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.file)
        return context

    def client(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=self.file)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
async def encrypted(authority: Authority) -> AsyncIterator[FaultServer]:
    async with fault_server(authority.server()) as server:
        yield server


async def test_encrypted_requests_reuse_their_connection(
    encrypted: FaultServer, authority: Authority
) -> None:
    connections = Connections(SystemClock(), tls=authority.client())
    sender = Sender(connections)
    encrypted.plan(answer(201, {"id": "ch_1", "note": "x" * 200_000}))
    arguments = {"note": "y" * 300_000}
    outcomes = [
        await sender.dispatch(contract(encrypted.url), arguments=arguments)
        for _ in range(2)
    ]
    assert all(isinstance(outcome, Committed) for outcome in outcomes)
    assert [len(seen.body) for seen in encrypted.seen] == [300_011, 300_011]
    assert [seen.connection for seen in encrypted.seen] == [0, 0]
    await connections.aclose()


@pytest.mark.parametrize("pause", [None, 0.0, 0.05])
async def test_encrypted_answer_that_nobody_asked_for_is_not_the_next_effects(
    encrypted: FaultServer, authority: Authority, pause: float | None
) -> None:
    connections = Connections(SystemClock(), tls=authority.client())
    encrypted.plan(twice(pause))
    sender = Sender(connections)
    await sender.dispatch(contract(encrypted.url))
    await asyncio.sleep(0.1)
    second = await sender.dispatch(contract(encrypted.url))
    assert isinstance(second, Committed)
    assert second.external_id == "ch_1"
    assert [seen.connection for seen in encrypted.seen] == [0, 1]
    await connections.aclose()


async def test_unknown_authority_is_proof_that_nothing_was_sent(
    encrypted: FaultServer,
) -> None:
    outcome = await Sender(Connections(SystemClock())).dispatch(contract(encrypted.url))
    assert outcome == NotSent("tls_failed", evidence=outcome.evidence)
    assert encrypted.seen == []


async def test_certificate_must_be_for_the_name_in_the_url(
    encrypted: FaultServer, authority: Authority
) -> None:
    connections = Connections(
        SystemClock(),
        tls=authority.client(),
        resolve=resolving(payments=["127.0.0.1"], other=["127.0.0.1"]),  # type: ignore[arg-type]
    )
    sender = Sender(connections)
    for host, expected in (("payments.test", Committed), ("other.test", NotSent)):
        outcome = await sender.dispatch(contract(f"https://{host}:{encrypted.port}"))
        assert isinstance(outcome, expected), host
    assert len(encrypted.seen) == 1
    await connections.aclose()


@pytest.mark.parametrize("fault", [faults.close, faults.reset])
async def test_lost_answer_over_tls_is_ambiguous(
    encrypted: FaultServer, authority: Authority, fault: faults.Act
) -> None:
    encrypted.plan(fault)
    connections = Connections(SystemClock(), tls=authority.client())
    outcome = await Sender(connections).dispatch(contract(encrypted.url))
    assert isinstance(outcome, Ambiguous)
    assert len(encrypted.seen) == 1


async def test_peer_that_leaves_during_the_handshake_has_got_nothing(
    authority: Authority,
) -> None:
    async with fault_server() as plain:
        plain.plan(faults.close)
        connections = Connections(SystemClock(), tls=authority.client())

        async def hang_up(
            reader: asyncio.StreamReader, writer: asyncio.StreamWriter
        ) -> None:
            await reader.read(1)
            writer.close()
            await writer.wait_closed()

        server = await asyncio.start_server(hang_up, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            outcome = await Sender(connections).dispatch(
                contract(f"https://127.0.0.1:{port}")
            )
    assert outcome == NotSent("tls_failed", evidence=outcome.evidence)
