from __future__ import annotations

import pytest

from effect_broker.adapters.wire.addresses import permitted

NEVER = [
    "169.254.169.254",
    "169.254.170.2",
    "169.254.0.1",
    "fe80::1",
    "fe80::1%eth0",
    "fd00:ec2::254",
    "100.100.100.200",
    "168.63.129.16",
    "0.0.0.0",
    "0.1.2.3",
    "::",
    "224.0.0.1",
    "ff02::1",
    "255.255.255.255",
    "::ffff:169.254.169.254",
    "64:ff9b::a9fe:a9fe",
    "2002:a9fe:a9fe::1",
    "::169.254.169.254",
    "::ffff:0:169.254.169.254",
    "64:ff9b:1::a9fe:a9fe",
    "64:ff9b:1:2:3:4:a9fe:a9fe",
    "::100.100.100.200",
    "::ffff:0:168.63.129.16",
]
PRIVATE = [
    "127.0.0.1",
    "127.9.9.9",
    "10.0.0.1",
    "172.16.0.1",
    "192.168.1.1",
    "100.64.0.1",
    "::1",
    "fd00::1",
    "fec0::1",
    "::ffff:127.0.0.1",
    "64:ff9b::7f00:1",
    "2002:7f00:1::1",
    "::127.0.0.1",
    "::10.0.0.1",
    "::ffff:0:127.0.0.1",
    "::ffff:0:192.168.1.1",
    "64:ff9b:1::7f00:1",
    "64:ff9b:1::808:808",
    "64:ff9b:1:a::808:808",
    "198.18.0.1",
    "240.0.0.1",
]
PUBLIC = ["8.8.8.8", "2606:4700:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"]


@pytest.mark.parametrize("address", NEVER)
def test_link_local_and_metadata_addresses_are_refused_always(address: str) -> None:
    assert permitted([address], allow_private=True) == ()
    assert permitted([address], allow_private=False) == ()


@pytest.mark.parametrize("address", PRIVATE)
def test_private_addresses_need_the_contracts_word(address: str) -> None:
    assert permitted([address], allow_private=False) == ()
    assert permitted([address], allow_private=True) == (address,)


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_are_permitted(address: str) -> None:
    assert permitted([address], allow_private=False) == (address,)


def test_one_forbidden_address_spoils_the_lot() -> None:
    assert permitted(["8.8.8.8", "10.0.0.1"], allow_private=False) == ()
    assert permitted(["10.0.0.1", "169.254.169.254"], allow_private=True) == ()


def test_no_address_is_no_permission() -> None:
    assert permitted([], allow_private=True) == ()
