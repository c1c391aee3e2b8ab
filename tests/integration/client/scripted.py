"""A server on a real socket that answers in bytes, hangs up, or says nothing."""

from __future__ import annotations

import json
import socket
import threading
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

CLOSE = b""
"""Reads the request, and hangs up."""


@dataclass
class Scripted:
    """Answers requests one after the other with `answers`, the last one for ever."""

    answers: list[bytes] = field(default_factory=list)
    requests: list[bytes] = field(default_factory=list)

    def __enter__(self) -> Self:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._thread.join()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._listening.getsockname()[1]}"

    def says(self, *answers: bytes) -> None:
        self.answers = list(answers)

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            with connection:
                request = read_request(connection)
                if not request:
                    continue
                self.requests.append(request)
                more = len(self.answers) > 1
                answer = self.answers.pop(0) if more else self.answers[0]
                connection.sendall(answer)


def read_request(connection: socket.socket) -> bytes:
    received = b""
    while b"\r\n\r\n" not in received:
        chunk = connection.recv(65536)
        if not chunk:
            return received
        received += chunk
    head, _, body = received.partition(b"\r\n\r\n")
    length = 0
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            length = int(line.split(b":")[1])
    while len(body) < length:
        body += connection.recv(65536)
    return head + b"\r\n\r\n" + body


def answer(status: int, document: Any, *, headers: dict[str, str] | None = None) -> bytes:
    """Return one answer that ends its connection."""
    body = document if isinstance(document, bytes) else json.dumps(document).encode()
    told = {
        "Content-Type": "application/json",
        "Content-Length": str(len(body)),
        "Connection": "close",
        **(headers or {}),
    }
    lines = [f"HTTP/1.1 {status} Said", *(f"{name}: {it}" for name, it in told.items())]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def problem(status: int, code: str, **members: Any) -> bytes:
    """Return a refusal as the broker words it."""
    document = {
        "type": f"urn:effect-broker:problem:{code}",
        "title": "x",
        "status": status,
        "detail": f"because {code}",
        "code": code,
        **members,
    }
    wait = members.get("retry_after_seconds")
    return answer(
        status, document, headers={} if wait is None else {"Retry-After": str(wait)}
    )
