"""What a local AWS stands on: the parts that run, and where each of them is found."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from localstack.workspace import CREDENTIALS, REGION

HOST = "127.0.0.1"


@dataclass(frozen=True)
class Addresses:
    """Where the parts are: for this machine, and for the functions inside the local AWS.

    The two differ where functions run in containers. The application's way into the
    database is every function's but that of migrate, which has the owner's.
    """

    aws: str
    database: str
    target: str
    database_inside: str
    application_database_inside: str
    target_inside: str


@dataclass(frozen=True)
class Part:
    """One part as `status` shows it."""

    name: str
    healthy: bool
    where: str


class Platform(Protocol):
    """Everything below the deployment, started and stopped as one."""

    def parts(self) -> Mapping[str, Callable[[], object]]:
        """What to start, by name; all may start at once, and what runs is kept."""
        ...

    def addresses(self) -> Addresses:
        """Where the started parts are."""
        ...

    def context(self) -> Mapping[str, str]:
        """The CDK context that this platform needs beside the database URL."""
        ...

    def generation(self) -> str | None:
        """What changes when the local AWS has lost its state; none while it is down."""
        ...

    def status(self) -> list[Part]:
        """Each part with its health."""
        ...

    def stop(self) -> None:
        """Stop every part that is ours."""
        ...


def client_environment(endpoint: str) -> dict[str, str]:
    """What makes any AWS client talk to the local AWS."""
    return {
        **CREDENTIALS,
        "AWS_REGION": REGION,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ENDPOINT_URL_S3": endpoint,
    }
