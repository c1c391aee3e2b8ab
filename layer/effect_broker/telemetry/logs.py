"""Log lines as JSON, sanitised: what may appear is on a list, and nothing else appears.

An exception is logged by its class and the places it passed, not by its text, which may
be anybody's data.
"""

from __future__ import annotations

import json
import logging
import sys
import traceback
from datetime import UTC, datetime
from typing import IO, Any, Final

from effect_broker.domain.errors import EffectBrokerError

LOG_FIELDS: Final = frozenset(
    {
        "attempt_id",
        "claimed",
        "contract",
        "contract_version",
        "count",
        "duration_ms",
        "effect_id",
        "error",
        "event",
        "function",
        "left_behind",
        "method",
        "occurrence",
        "operation_digest",
        "ordinal",
        "outcome",
        "queue",
        "reason",
        "receipt_id",
        "request_id",
        "route",
        "safety",
        "settled",
        "status",
        "tool",
        "version",
        "worker",
    }
)
"""What a log line may carry beside its text; whatever else is passed is not printed."""

QUIET: Final = (
    "asyncio",
    "botocore",
    "boto3",
    "httpcore",
    "httpx",
    "httpx2",
    "mangum",
    "mcp",
    "urllib3",
    "uvicorn.access",
)
"""Loggers whose INFO lines hold URLs, headers or paths."""

DETAILED: Final = ("alembic",)
"""Loggers whose INFO lines say how a thing is done: only for who asks for DEBUG."""


class JsonFormatter(logging.Formatter):
    """One JSON object a line.

    Of a library's line only the template is kept: its arguments may be anybody's data.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Render a record."""
        ours = record.name.partition(".")[0] in ("effect_broker", "functions")
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage() if ours else _template(record.msg),
        }
        if ours:
            line |= {
                name: value for name, value in vars(record).items() if name in LOG_FIELDS
            }
        if record.exc_info and record.exc_info[1] is not None:
            line["exception"] = describe_exception(record.exc_info[1])
        return json.dumps(line, default=str)


def _template(message: object) -> str:
    return message if isinstance(message, str) else type(message).__qualname__


def describe_exception(error: BaseException) -> dict[str, Any]:
    """Return an exception's class and places; its text only where the broker wrote it."""
    places = [
        f"{frame.filename}:{frame.lineno} {frame.name}"
        for frame in traceback.extract_tb(error.__traceback__)
    ]
    described: dict[str, Any] = {"class": type(error).__qualname__, "places": places}
    if isinstance(error, EffectBrokerError):
        described |= {"code": error.code, "text": error.message}
    context = None if error.__suppress_context__ else error.__context__
    cause = error.__cause__ or context
    if cause is not None:
        described["after"] = type(cause).__qualname__
    return described


def configure_logging(level: str = "INFO", stream: IO[str] | None = None) -> None:
    """Send every log line of this process through the sanitising formatter.

    On Lambda the runtime has put a handler on the root logger already: it is replaced, so
    that each line is printed once.
    """
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(handlers=[handler], level=level, force=True)
    for name in QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
    set_level(level)


def set_level(level: str) -> None:
    """Print lines from this level on, where the level became known later."""
    logging.getLogger().setLevel(level)
    for name in DETAILED:
        detailed = logging.NOTSET if level == "DEBUG" else logging.WARNING
        logging.getLogger(name).setLevel(detailed)
