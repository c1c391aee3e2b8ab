"""The rows of the store, and the question that finds charges among them."""

from dataclasses import asdict, dataclass

from .instants import rendered
from .wire import Answer


@dataclass(frozen=True)
class Charge:
    """One row that says money was taken; the fields stand as the columns do."""

    id: str
    world: str
    amount: int
    currency: str
    order: str
    reference: str | None
    key: str | None
    created_at: float

    def public(self) -> dict[str, object]:
        """What the payment surface shows of it."""
        row = {**asdict(self), "created_at": rendered(self.created_at)}
        del row["world"]
        return row


@dataclass(frozen=True)
class Search:
    """Which charges are asked for; what is None does not restrict."""

    world: str | None = None
    id: str | None = None
    order: str | None = None
    reference: str | None = None
    key: str | None = None
    created_after: float | None = None
    created_before: float | None = None
    settled_at: float | None = None


@dataclass(frozen=True)
class KeyRecord:
    """What a key remembers: the body it was used with and the answer to replay."""

    key: str
    body_sha256: str
    answer: Answer


@dataclass(frozen=True)
class Arrival:
    """What was on the wire, kept so that a test can compare it byte for byte."""

    world: str
    method: str
    path: str
    order: str | None
    reference: str | None
    key: str | None
    send_deadline: str | None
    header_names: tuple[str, ...]
    body_sha256: str
    connection_id: str
    fault: str | None
