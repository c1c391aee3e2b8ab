"""A payment service in this process: it keeps books, and says what is in them."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlsplit

from effect_broker.domain.contract import KeyRecords

IN_USE = {"error": {"code": "in_use"}}
REUSED = {"error": {"code": "key_reused"}}


@dataclass(frozen=True)
class Kept:
    """What stands under a key."""

    body: bytes
    status: int
    document: Any


class BookedTarget:
    """Charges over HTTP/1.1, deduplicated by `Idempotency-Key` where it `honours_keys`.

    A commit is found by `GET /v1/charges?reference=`, under the key or the `reference`
    that came with it.
    """

    def __init__(
        self,
        *,
        honours_keys: bool = True,
        compares_bodies: bool = True,
        keeps: KeyRecords = KeyRecords.ALL_ANSWERS,
    ) -> None:
        self.honours_keys = honours_keys
        self.compares_bodies = compares_bodies
        self.keeps = keeps
        self.charges: list[dict[str, Any]] = []
        self.hide_next = 0
        self._kept: dict[str, Kept] = {}
        self._server: asyncio.Server | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._writers: list[asyncio.StreamWriter] = []

    async def start(self) -> tuple[str, int]:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        host, port = self._server.sockets[0].getsockname()
        return host, port

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for writer in self._writers:
            writer.transport.abort()
            with suppress(ConnectionError):
                await writer.wait_closed()

    def forget_keys(self) -> None:
        self._kept.clear()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        self._tasks.append(asyncio.create_task(self._serve(reader, writer)))

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                first, *lines = head.strip().split("\r\n")
                fields = {
                    name.lower(): value.strip()
                    for name, _, value in (line.partition(":") for line in lines)
                }
                body = await reader.readexactly(int(fields.get("content-length", "0")))
                method, target, _ = first.split(" ")
                status, document = self.answer(method, target, fields, body)
                text = json.dumps(document).encode()
                writer.write(
                    f"HTTP/1.1 {status} Status\r\nContent-Type: application/json\r\n"
                    f"Content-Length: {len(text)}\r\n\r\n".encode()
                    + text
                )
                await writer.drain()
                if status == 411:
                    return

    def answer(
        self, method: str, target: str, fields: dict[str, str], body: bytes
    ) -> tuple[int, Any]:
        parts = urlsplit(target)
        if method == "GET":
            asked = parse_qs(parts.query).get("reference", [""])[0]
            return 200, {"data": [c for c in self.charges if c["reference"] == asked]}
        if "content-length" not in fields:
            return 411, {"error": {"code": "length_required"}}
        key = fields.get("idempotency-key", "").strip('"')
        if not (key and self.honours_keys):
            return self._commit(key, body)
        kept = self._kept.get(key)
        if kept is not None:
            if self.compares_bodies and kept.body != body:
                return 409, REUSED
            return kept.status, kept.document
        made = len(self.charges)
        status, document = self._commit(key, body)
        if self.keeps is KeyRecords.ALL_ANSWERS or status < 300:
            self._kept[key] = Kept(body, status, document)
        elif self.keeps is KeyRecords.COMMITS:
            self._kept[key] = Kept(body, 201, self.charges[made])
        return status, document

    def _commit(self, key: str, body: bytes) -> tuple[int, Any]:
        arguments = json.loads(body)
        charge = {
            "id": f"ch_{len(self.charges) + 1}",
            "amount": arguments["amount"],
            "reference": arguments.get("reference") or key,
        }
        self.charges.append(charge)
        if self.hide_next:
            self.hide_next -= 1
            return 503, {"error": {"code": "internal"}}
        return 201, charge
