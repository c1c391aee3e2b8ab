"""The part of Step Functions that waits: answers tokens once, as the service does."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self


class WaitingTasks:
    """Tasks that wait by token; `told` is what each was answered, once.

    `away` is how many requests are refused before one is taken.
    """

    def __init__(self) -> None:
        self.told: dict[str, dict[str, Any]] = {}
        self.requests: list[str] = []
        self.away = 0

    def __enter__(self) -> Self:
        tasks = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                length = int(self.headers["Content-Length"])
                asked = json.loads(self.rfile.read(length))
                operation = self.headers["X-Amz-Target"].split(".")[1]
                status, document = tasks.answer(operation, asked)
                body = json.dumps(document).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/x-amz-json-1.0")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Stay silent."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def answer(self, operation: str, asked: dict[str, Any]) -> tuple[int, Any]:
        self.requests.append(operation)
        if self.away:
            self.away -= 1
            return 400, {"__type": "ThrottlingException", "message": "later"}
        token = asked.pop("taskToken")
        if token in self.told:
            return 400, {"__type": "TaskTimedOut", "message": "answered before"}
        self.told[token] = {"operation": operation, **asked}
        return 200, {}
