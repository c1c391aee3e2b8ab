"""The tool that all systems call, and how they tell what came of it.

Standard library only, since each runs in an environment of its own.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import dataclass
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

ANSWER_SECONDS_MAX = 3.0


class ChargeFailed(Exception):
    """The target answered, and refused."""


@dataclass(frozen=True)
class Turn:
    """What one run of a program is about; `store` is where its system keeps records."""

    target: str
    world: str
    order: str
    store: str
    variant: str

    @property
    def arguments(self) -> dict[str, Any]:
        """What the tool is called with."""
        return {"amount": 4200, "currency": "EUR", "order": self.order}

    def charge(self, key: str) -> dict[str, Any]:
        """Make one request, with the key where this target looks for one.

        Raises:
            ChargeFailed: a refusal.
            OSError, http.client.HTTPException: no answer, which says nothing.
        """
        address = urlsplit(self.target)
        connection = HTTPConnection(
            address.hostname or "", address.port, timeout=ANSWER_SECONDS_MAX
        )
        body = dict(self.arguments)
        headers = {"Content-Type": "application/json"}
        if self.world == "keyed":
            headers["Idempotency-Key"] = key
        if self.world == "lookup":
            body["reference"] = key
        try:
            path = f"/{self.world}/charges"
            connection.request("POST", path, json.dumps(body), headers)
            response = connection.getresponse()
            answer: dict[str, Any] = json.loads(response.read())
        finally:
            connection.close()
        if response.status >= 300:
            raise ChargeFailed(f"{response.status} {answer}")
        return answer


def main(run: Callable[[Turn], tuple[str, str]]) -> None:
    """Run a program's one turn, and print what it told and what is on record."""
    parser = argparse.ArgumentParser()
    for name in ("target", "world", "order", "store", "variant"):
        parser.add_argument(f"--{name}", required=True)
    told, on_record = run(Turn(**vars(parser.parse_args())))
    print(json.dumps({"told": told, "on_record": on_record}), flush=True)


def told(error: BaseException) -> str:
    """Say an error as a caller sees it."""
    return f"{type(error).__name__}: {error}".split("\n")[0]
