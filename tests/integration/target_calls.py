"""Calls to the demo target as any caller would make them, on connections of their own."""

import json
from contextlib import closing
from dataclasses import dataclass
from http.client import HTTPConnection
from urllib.parse import urlsplit

from examples.crash_matrix.target.client import DemoTarget


@dataclass(frozen=True)
class Reply:
    status: int
    headers: dict[str, str]
    raw: bytes

    @property
    def json(self) -> dict[str, object]:
        document = json.loads(self.raw)
        assert isinstance(document, dict)
        return document

    @property
    def code(self) -> object:
        error = self.json["error"]
        assert isinstance(error, dict)
        return error["code"]

    @property
    def data(self) -> list[dict[str, object]]:
        data = self.json["data"]
        assert isinstance(data, list)
        return data


def connect(target: DemoTarget) -> HTTPConnection:
    address = urlsplit(target.url)
    return HTTPConnection(address.hostname or "", address.port, timeout=10)


def talk(
    connection: HTTPConnection, method: str, path: str, body: bytes | None, **headers: str
) -> Reply:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method, path, body, named)
    response = connection.getresponse()
    return Reply(response.status, dict(response.getheaders()), response.read())


def charge_body(order: str = "order-1", amount: int = 100, **fields: object) -> bytes:
    fields = {"amount": amount, "currency": "EUR", "order": order, **fields}
    return json.dumps(fields).encode()


def post(
    target: DemoTarget, world: str = "keyed", body: bytes | None = None, **headers: str
) -> Reply:
    with closing(connect(target)) as connection:
        body = charge_body() if body is None else body
        return talk(connection, "POST", f"/{world}/charges", body, **headers)


def keyed(target: DemoTarget, key: str = "k1", body: bytes | None = None) -> Reply:
    return post(target, "keyed", body, Idempotency_Key=key)


def get(target: DemoTarget, path: str) -> Reply:
    with closing(connect(target)) as connection:
        return talk(connection, "GET", path, None)
