"""What a failure of the HTTP client is worth: proof that nothing was sent, or nothing.

The table is for whoever has only the exception. Where the gate was asked, the gate knows
better: not a byte has left before it opened, whatever was raised.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Failure:
    """A stable word; `nothing_sent` where no connection stood yet."""

    reason: str
    nothing_sent: bool = False


_BEFORE: Final = True

FAILURES: Final[Mapping[str, Failure]] = {
    # Before a connection stood: the pool, the name, the peer, its certificate.
    "PoolTimeout": Failure("no_connection_free", _BEFORE),
    "ConnectionNotAvailable": Failure("no_connection_free", _BEFORE),
    "ConnectTimeout": Failure("connect_timed_out", _BEFORE),
    "ConnectError": Failure("connect_failed", _BEFORE),
    "UnsupportedProtocol": Failure("url_refused", _BEFORE),
    "InvalidURL": Failure("url_refused", _BEFORE),
    # A proxy answers before the tunnel stands, but one that forwards may have forwarded.
    "ProxyError": Failure("proxy_failed"),
    # Written, perhaps: even with no byte of an answer the target may have acted.
    "WriteTimeout": Failure("write_timed_out"),
    "WriteError": Failure("write_failed"),
    "ReadTimeout": Failure("read_timed_out"),
    "ReadError": Failure("connection_lost"),
    "CloseError": Failure("connection_lost"),
    "RemoteProtocolError": Failure("answer_broken"),
    # The client's own refusal to encode, or a body that ended early with its head sent.
    "LocalProtocolError": Failure("request_broken"),
    "DecodingError": Failure("answer_broken"),
    "TooManyRedirects": Failure("redirected"),
    "HTTPStatusError": Failure("answer_refused"),
    "CookieConflict": Failure("answer_broken"),
    "StreamConsumed": Failure("answer_broken"),
    "StreamClosed": Failure("answer_broken"),
    "ResponseNotRead": Failure("answer_broken"),
    "RequestNotRead": Failure("request_broken"),
    "SSEError": Failure("answer_broken"),
    # Roots: raised by nobody today, and careful where a new leaf appears.
    "TimeoutException": Failure("timed_out"),
    "NetworkError": Failure("connection_lost"),
    "ProtocolError": Failure("protocol_broken"),
    "TransportError": Failure("transport_failed"),
    "StreamError": Failure("answer_broken"),
    "RequestError": Failure("transport_failed"),
    "HTTPError": Failure("transport_failed"),
}
"""By class name, which httpx2 and httpcore2 share, so that asking imports neither."""

UNCLASSIFIED: Final = Failure("transport_failed")
"""What is not in the table is ambiguous."""

_CLIENTS: Final = frozenset({"httpx2", "httpcore2"})


def failure_of(error: BaseException) -> Failure:
    """Classify by the error's own class, then by what it derives from."""
    for kind in type(error).__mro__:
        known = kind.__module__.partition(".")[0] in _CLIENTS
        if known and kind.__name__ in FAILURES:
            return FAILURES[kind.__name__]
    return UNCLASSIFIED


def reason_of(error: BaseException) -> str:
    """Return the stable word for a failure."""
    return failure_of(error).reason
