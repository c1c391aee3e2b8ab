"""Which addresses a request may go to, judged after resolution and before the connection.

A contract's host is text that somebody wrote; what counts is where the name leads now.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import (
    IPv4Address,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from typing import Final

Address = IPv4Address | IPv6Address

NEVER: Final = tuple(
    ip_network(text)
    for text in (
        "169.254.0.0/16",  # link-local, and with it the metadata of most clouds
        "fe80::/10",
        "fd00:ec2::254/128",  # AWS metadata over IPv6
        "fd00:ec2::23/128",  # AWS container credentials over IPv6
        "100.100.100.200/32",  # Alibaba metadata
        "168.63.129.16/32",  # Azure host agent
        "192.0.0.192/32",  # Oracle metadata
        "0.0.0.0/8",  # means this host on Linux
        "::/128",
        "224.0.0.0/4",
        "ff00::/8",
        "255.255.255.255/32",
    )
)
"""Refused whatever the contract says: who answers there hands out credentials."""

_NAT64: Final = IPv6Network("64:ff9b::/96")

_LOCAL_NAT64: Final = IPv6Network("64:ff9b:1::/48")
"""RFC 8215: translated inside one network, so that no public host answers there."""

_EMBEDDING: Final = (
    IPv6Network("::/96"),  # IPv4-compatible, deprecated by RFC 4291
    IPv6Network("::ffff:0:0:0/96"),  # IPv4-translated, RFC 2765
    _LOCAL_NAT64,
)
"""Forms whose last 32 bits may be the IPv4 address that is reached."""

_LOOPBACK: Final = IPv6Address("::1")


def permitted(texts: Iterable[str], *, allow_private: bool) -> tuple[str, ...]:
    """Return the resolved addresses if a request may go to every one of them, else none.

    One forbidden address among good ones is how a name is rebound, so it spoils the lot.
    """
    found = tuple(dict.fromkeys(texts))
    if all(_permits(text, allow_private) for text in found):
        return found
    return ()


def _permits(text: str, allow_private: bool) -> bool:
    reached = _reached(ip_address(text.partition("%")[0]))
    if any(
        address.version == network.version and address in network
        for address in reached
        for network in NEVER
    ):
        return False
    return allow_private or all(_is_public(address) for address in reached)


def _is_public(address: Address) -> bool:
    if isinstance(address, IPv6Address) and (
        address.is_site_local or address in _LOCAL_NAT64
    ):
        return False
    return address.is_global


def _reached(address: Address) -> tuple[Address, ...]:
    """Return the address and the IPv4 address that an IPv6 form of it leads to."""
    if isinstance(address, IPv4Address):
        return (address,)
    if address.ipv4_mapped is not None:
        return (address.ipv4_mapped,)
    if address in _NAT64:
        return (IPv4Address(int(address) & 0xFFFF_FFFF),)
    if address != _LOOPBACK and any(address in network for network in _EMBEDDING):
        return (address, IPv4Address(int(address) & 0xFFFF_FFFF))
    if address.sixtofour is not None:
        return (address, address.sixtofour)
    if address.teredo is not None:
        return (address, *address.teredo)
    return (address,)
