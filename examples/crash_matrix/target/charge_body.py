"""The body of a charge: JSON or form, four fields, nothing taken on trust."""

import json
from dataclasses import dataclass
from urllib.parse import parse_qsl

from .wire import Request

# What SQLite, JSON and every client language hold without loss.
AMOUNT_MAX = 2**53 - 1
TEXT_CHARACTERS_MAX = 1_000


class BodyRefused(ValueError):
    """The body is no charge; 400 when unreadable, 422 when a field is wrong."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class ChargeBody:
    """What a caller asks to be charged; the reference is its own correlation key."""

    amount: int
    currency: str
    order: str
    reference: str | None


def parsed_body(request: Request) -> ChargeBody:
    """Read a charge.

    Raises:
        BodyRefused: with the status to answer.
    """
    media_type = (request.header("Content-Type") or "application/json").split(";")[0]
    match media_type.strip().lower():
        case "application/x-www-form-urlencoded":
            fields = _form(request.body)
        case "application/json":
            fields = _json(request.body)
        case _:
            raise BodyRefused(400, "the body is neither JSON nor a form")
    reference = fields.get("reference")
    return ChargeBody(
        amount=_amount(fields.get("amount")),
        currency=_text("currency", fields.get("currency")),
        order=_text("order", fields.get("order")),
        reference=None if reference is None else _text("reference", reference),
    )


def _json(body: bytes) -> dict[str, object]:
    try:
        fields = json.loads(body)
    except (ValueError, RecursionError):
        raise BodyRefused(400, "the body is not JSON") from None
    if not isinstance(fields, dict):
        raise BodyRefused(400, "the body is not an object")
    return fields


def _form(body: bytes) -> dict[str, object]:
    try:
        pairs = parse_qsl(
            body.decode("ascii"), keep_blank_values=True, strict_parsing=True
        )
    except ValueError:
        raise BodyRefused(400, "the body is not a form") from None
    fields: dict[str, object] = dict(pairs)
    amount = str(fields.get("amount", ""))
    if amount.isascii() and amount.isdigit() and len(amount) < 20:
        fields["amount"] = int(amount)
    return fields


def _amount(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise BodyRefused(422, "amount is a whole number")
    if not 1 <= value <= AMOUNT_MAX:
        raise BodyRefused(422, f"amount is from 1 to {AMOUNT_MAX}")
    return value


def _text(name: str, value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise BodyRefused(422, f"{name} is a text that is not blank")
    if len(value) > TEXT_CHARACTERS_MAX or not value.isprintable():
        raise BodyRefused(422, f"{name} is one line within the limit")
    return value
