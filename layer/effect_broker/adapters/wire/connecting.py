"""Opening a connection: resolve once, judge every address, connect to a judged one.

Nothing of a request exists yet, so whatever fails here proves that nothing was sent.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from effect_broker.adapters.wire.addresses import permitted
from effect_broker.adapters.wire.gate import NothingSent
from effect_broker.adapters.wire.stream import SocketStream

ADDRESS_SECONDS_MAX: Final = 5.0
"""One address that swallows packets must not eat the time of the next one."""

Resolve = Callable[[str, int], Awaitable[list[str]]]
"""From a host and a port to addresses, in order of preference."""


class ConnectFailed(NothingSent):
    """No connection came to be: the name, the address, the peer or its certificate."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Scheme, host and port of a URL: where a connection leads."""

    scheme: str
    host: str
    port: int

    @property
    def authority(self) -> str:
        """The host as a request names it; the scheme's own port is left out."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        usual = {"http": 80, "https": 443}[self.scheme]
        return host if self.port == usual else f"{host}:{self.port}"


def origin_of(url: str) -> Origin:
    """Read where a URL leads.

    Raises:
        ConnectFailed: no http(s) URL with an ASCII host, or one that carries credentials.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise ConnectFailed("url_refused") from None
    host = parts.hostname or ""
    if (
        parts.scheme not in {"http", "https"}
        or not host
        or not host.isascii()
        or parts.username is not None
        or port == 0
    ):
        raise ConnectFailed("url_refused")
    return Origin(parts.scheme, host, port or (443 if parts.scheme == "https" else 80))


async def system_resolve(host: str, port: int) -> list[str]:
    """Ask the system's resolver."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(address[0]) for *_, address in found]


async def connect(
    origin: Origin, *, allow_private: bool, tls: ssl.SSLContext, resolve: Resolve
) -> SocketStream:
    """Open a connection that nothing has been written on.

    Plain http and private addresses are for contracts that allow private ones; link-local
    and metadata addresses are for none.

    Raises:
        ConnectFailed: with the step that failed.
    """
    if origin.scheme == "http" and not allow_private:
        raise ConnectFailed("plain_http_refused")
    addresses = await _judged(origin, allow_private, resolve)
    stream = SocketStream(await _first_that_answers(addresses, origin.port))
    if origin.scheme == "http":
        return stream
    try:
        return await stream.start_tls(tls, origin.host)
    except OSError as error:
        await stream.aclose()
        raise ConnectFailed("tls_failed") from error
    except asyncio.CancelledError:
        await stream.aclose()
        raise


async def _judged(
    origin: Origin, allow_private: bool, resolve: Resolve
) -> tuple[str, ...]:
    try:
        found = await resolve(origin.host, origin.port)
    except (OSError, UnicodeError) as error:
        raise ConnectFailed("name_not_resolved") from error
    addresses = permitted(found, allow_private=allow_private)
    if not addresses:
        raise ConnectFailed("address_refused")
    return addresses


async def _first_that_answers(addresses: tuple[str, ...], port: int) -> socket.socket:
    reason = "connect_failed"
    for address in addresses:
        try:
            async with asyncio.timeout(ADDRESS_SECONDS_MAX):
                return await _connected(address, port)
        except TimeoutError:
            reason = "connect_timed_out"
        except OSError:
            reason = "connect_failed"
    raise ConnectFailed(reason)


async def _connected(address: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await asyncio.get_running_loop().sock_connect(sock, (address, port))
    except BaseException:
        sock.close()
        raise
    return sock
