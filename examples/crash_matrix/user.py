"""A caller of the broker's HTTP API, who knows nothing but its address and a key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import httpx2

# The gateway gives up after 29 seconds; whoever waits longer waits for nobody.
ANSWER_SECONDS_MAX = 30.0


class UnexpectedAnswer(Exception):
    """The API answered something that a caller cannot go on with."""


@dataclass(frozen=True)
class Answer:
    """One answer: its status code, its headers and its JSON body."""

    status: int
    headers: Mapping[str, str]
    body: dict[str, Any]


@dataclass(frozen=True)
class Order:
    """One charge that somebody wants: the tool to call, and the intent's own name."""

    tool: str
    order: str
    amount: int = 4200
    currency: str = "EUR"

    @property
    def operation_key(self) -> str:
        """The business intent, the same however often it is asked for."""
        return f"order:{self.order}:charge:v1"

    @property
    def submission(self) -> dict[str, object]:
        """The body of the POST."""
        return {
            "operation_key": self.operation_key,
            "tool": self.tool,
            "arguments": {
                "order": self.order,
                "amount": self.amount,
                "currency": self.currency,
            },
            "requested_by": "crash-matrix",
        }


class User:
    """Calls the API with one key; usable from several threads at once."""

    def __init__(self, url: str, key: str) -> None:
        self._url = url
        self._client = httpx2.Client(
            headers={"Authorization": f"Bearer {key}"},
            timeout=ANSWER_SECONDS_MAX,
            trust_env=False,
        )

    def __enter__(self) -> User:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def submit(self, order: Order) -> Answer:
        """Ask for a charge."""
        return self.call("POST", "/v1/effects", json=order.submission)

    def effect(self, effect_id: str) -> dict[str, Any]:
        """Read an effect with its history and attempts."""
        return self._found(f"/v1/effects/{effect_id}")

    def receipt(self, effect_id: str) -> Answer:
        """Read the receipt, or where the effect stands while there is none."""
        return self.call("GET", f"/v1/effects/{effect_id}/receipt")

    def effects(self, **parameters: str) -> Iterator[dict[str, Any]]:
        """Read every effect that fits the parameters, newest first."""
        while True:
            page = self._found("/v1/effects", parameters)
            yield from page["effects"]
            if page["next_cursor"] is None:
                return
            parameters = {**parameters, "cursor": page["next_cursor"]}

    def resolve(self, effect_id: str, **finding: object) -> Answer:
        """Say what an operator found at the target; needs a key with that scope."""
        return self.call("POST", f"/v1/effects/{effect_id}/resolve", json=finding)

    def call(self, method: str, path: str, **request: Any) -> Answer:
        """Make one request.

        Raises:
            UnexpectedAnswer: no answer at all, or one that is not a JSON object.
        """
        try:
            response = self._client.request(method, f"{self._url}{path}", **request)
        except httpx2.HTTPError as error:
            raise UnexpectedAnswer(f"{method} {path}: {error!r}") from error
        try:
            body = response.json()
        except ValueError:
            body = None
        if not isinstance(body, dict):
            said = f"{response.status_code} {response.text[:200]}"
            raise UnexpectedAnswer(f"{method} {path}: {said}")
        return Answer(response.status_code, response.headers, body)

    def _found(
        self, path: str, parameters: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        answer = self.call("GET", path, params=parameters)
        if answer.status != 200:
            code = answer.body.get("code")
            raise UnexpectedAnswer(f"GET {path}: {answer.status} {code}")
        return answer.body
