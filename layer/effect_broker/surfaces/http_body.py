"""The body of a request as bytes, bounded, and read by the strict parser alone.

The framework never sees it: a parser that forgives duplicate names or NaN would change
the payload before it is hashed.
"""

from __future__ import annotations

from contextlib import aclosing
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request

from effect_broker.domain.canonical import parse_strict
from effect_broker.domain.errors import RequestTooLarge
from effect_broker.surfaces.requests import BODY_BYTES_MAX, Fields


async def read_json(request: Request) -> Any:
    """Return the one JSON value of the body.

    Raises:
        InvalidJson: the bytes are not one strict JSON value.
        RequestTooLarge: more than `BODY_BYTES_MAX` decoded bytes.
        HTTPException: 415, the body is not said to be plain JSON.
    """
    _check_media_type(request)
    return parse_strict(await _read(request))


async def read_nothing(request: Request) -> None:
    """Accept an empty body, or an empty object.

    Raises:
        InvalidRequest: the body says something that nothing would read.
    """
    body = await _read(request)
    if body.strip():
        Fields(parse_strict(body), known=()).check()


async def _read(request: Request) -> bytes:
    declared = request.headers.get("content-length", "")
    if declared.isascii() and declared.isdigit() and int(declared) > BODY_BYTES_MAX:
        raise _too_large()
    body = bytearray()
    # Closed here: left half-read, its end would be a task that outlives the answer.
    async with aclosing(request.stream()) as chunks:
        async for chunk in chunks:
            body += chunk
            if len(body) > BODY_BYTES_MAX:
                raise _too_large()
    return bytes(body)


def _check_media_type(request: Request) -> None:
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("", "identity"):
        raise HTTPException(415, "The body must not be content-encoded.")
    media_type, _, parameters = request.headers.get("content-type", "").partition(";")
    media_type = media_type.strip().lower()
    is_json = media_type == "application/json" or (
        media_type.startswith("application/") and media_type.endswith("+json")
    )
    charset = parameters.replace(" ", "").replace('"', "").lower()
    if not is_json or charset not in ("", "charset=utf-8"):
        raise HTTPException(
            415, "The body must be sent as Content-Type: application/json, in UTF-8."
        )


def _too_large() -> RequestTooLarge:
    return RequestTooLarge(f"The body may hold {BODY_BYTES_MAX} bytes once decoded.")
