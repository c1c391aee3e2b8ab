"""An adapter of one's own on a bare socket, and the places where the cheats differ."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import quote, urlsplit
from uuid import UUID

from effect_broker.adapters.custom import AdapterContext
from effect_broker.domain.contract import EffectContract
from effect_broker.domain.intent import EffectRecord
from effect_broker.domain.outcome import (
    Ambiguous,
    Committed,
    Outcome,
    ProbeResult,
    ProbeStatus,
)


@dataclass(frozen=True)
class Answer:
    """A whole answer, or with `cut` one whose body broke off."""

    status: int
    body: bytes
    cut: bool = False


class HonestAdapter:
    """One connection and one request an attempt; what is not answered is ambiguous."""

    def __init__(self, contract: EffectContract, context: AdapterContext) -> None:
        self._contract = contract
        self._context = context

    @property
    def contract(self) -> EffectContract:
        return self._contract

    async def dispatch(self, effect: EffectRecord, *, attempt_id: UUID) -> Outcome:
        try:
            answer = await self.send(effect, attempt_id)
        except (ConnectionError, asyncio.IncompleteReadError):
            return self.unanswered()
        if answer.cut:
            return self.broken_off(answer)
        return self.told(answer)

    async def probe(self, effect: EffectRecord) -> ProbeResult:
        path = f"/v1/charges?reference={quote(effect.downstream_key)}"
        try:
            answer = await self.exchange(f"GET {path} HTTP/1.1\r\n", b"")
        except (ConnectionError, asyncio.IncompleteReadError):
            return self.lookup_failed()
        if answer.cut or answer.status != 200:
            return self.lookup_failed()
        return self.looked_up(json.loads(answer.body)["data"])

    async def send(self, effect: EffectRecord, attempt_id: UUID) -> Answer:
        head = f"POST /v1/charges HTTP/1.1\r\nIdempotency-Key: {self.key(effect)}\r\n"
        return await self.exchange(head, self.body(effect, attempt_id))

    async def exchange(self, head: str, body: bytes) -> Answer:
        assert self._contract.http is not None
        parts = urlsplit(self._contract.http.url)
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        try:
            self.permit()
            length = f"Content-Length: {len(body)}\r\n" if body else ""
            writer.write(f"{head}Host: {parts.netloc}\r\n{length}\r\n".encode() + body)
            await writer.drain()
            return await _read(reader)
        finally:
            writer.transport.abort()
            with suppress(ConnectionError):
                await writer.wait_closed()

    def permit(self) -> None:
        self._context.permit()

    def key(self, effect: EffectRecord) -> str:
        return effect.downstream_key

    def body(self, effect: EffectRecord, attempt_id: UUID) -> bytes:
        return json.dumps(dict(effect.request.arguments), sort_keys=True).encode()

    def unanswered(self) -> Outcome:
        return Ambiguous("connection_lost")

    def broken_off(self, answer: Answer) -> Outcome:
        if answer.status == 201:
            return Committed(None, raw=answer.body, flags=("output_unparsed",))
        return Ambiguous("answer_broken")

    def told(self, answer: Answer) -> Outcome:
        if answer.status == 201:
            document = json.loads(answer.body)
            return Committed(document["id"], document)
        if answer.status == 409:
            code = json.loads(answer.body)["error"]["code"]
            return Ambiguous(
                code,
                in_progress=code == "in_use",
                contract_violated=code == "key_reused",
            )
        return Ambiguous(f"status_{answer.status}")

    def looked_up(self, found: list[dict[str, str]]) -> ProbeResult:
        if not found:
            return ProbeResult(ProbeStatus.NOT_COMMITTED)
        return ProbeResult(ProbeStatus.COMMITTED, found[0]["id"], found[0])

    def lookup_failed(self) -> ProbeResult:
        return ProbeResult(ProbeStatus.UNKNOWN)


async def _read(reader: asyncio.StreamReader) -> Answer:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.strip().split("\r\n")
    fields = {name.lower(): value for name, _, value in (x.partition(":") for x in lines)}
    status = int(first.split(" ")[1])
    try:
        body = await reader.readexactly(int(fields["content-length"]))
    except asyncio.IncompleteReadError as broken:
        return Answer(status, broken.partial, cut=True)
    return Answer(status, body)
