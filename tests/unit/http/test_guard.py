# SPDX-License-Identifier: Apache-2.0
from ipaddress import ip_address, ip_network

import pytest

from ojak.errors import DeliveryError
from ojak.http.guard import Guard, RefusedAddress

REFUSED_NETWORKS = [
    "0.0.0.0/8",
    "10.0.0.0/8",
    "100.64.0.0/10",
    "127.0.0.0/8",
    "169.254.0.0/16",
    "172.16.0.0/12",
    "192.0.0.0/24",
    "192.0.2.0/24",
    "192.31.196.0/24",
    "192.52.193.0/24",
    "192.88.99.0/24",
    "192.168.0.0/16",
    "192.175.48.0/24",
    "198.18.0.0/15",
    "198.51.100.0/24",
    "203.0.113.0/24",
    "224.0.0.0/4",
    "240.0.0.0/4",
    "2001::/23",
    "2001:db8::/32",
    "2002::/16",
    "3fff::/20",
    "2620:4f:8000::/48",
    "::/3",
    "4000::/2",
    "8000::/1",
]

REFUSED = [
    "127.0.0.1",
    "255.255.255.255",
    "169.254.169.254",
    "::",
    "::1",
    "::7f00:1",
    "::ffff:127.0.0.1",
    "::ffff:8.8.8.8",
    "64:ff9b::7f00:1",
    "64:ff9b::808:808",
    "64:ff9b:1::1",
    "100::1",
    "2002:7f00:1::",
    "2001:0:7f00:1::",
    "fc00::1",
    "fd12:3456::1",
    "fe80::1",
    "fe80::1%eth0",
    "fec0::1",
    "ff02::1",
    "",
    "localhost",
    "127.1",
    "0x7f.0.0.1",
    "017700000001",
    "2130706433",
    "1.2.3.4 ",
    "1.2.3.4\n",
]

ALLOWED = [
    "1.1.1.1",
    "9.255.255.255",
    "11.0.0.0",
    "100.63.255.255",
    "100.128.0.0",
    "128.0.0.0",
    "172.15.255.255",
    "172.32.0.0",
    "192.0.1.0",
    "192.167.255.255",
    "192.169.0.0",
    "198.17.255.255",
    "198.20.0.0",
    "223.255.255.255",
    "2001:200::1",
    "2001:db7:ffff::1",
    "2001:db9::1",
    "2003::1",
    "2606:4700::1111",
    "2620:4f:8001::1",
    "3ffe:ffff::1",
    "3fff:1000::1",
]


@pytest.mark.parametrize("text", REFUSED_NETWORKS)
def test_both_ends_of_a_refused_network(text: str) -> None:
    network = ip_network(text)
    for address in (network[0], network[-1]):
        with pytest.raises(RefusedAddress) as caught:
            Guard().check(str(address))
        assert caught.value.address == str(address)


@pytest.mark.parametrize("address", REFUSED)
def test_refused(address: str) -> None:
    with pytest.raises(RefusedAddress) as caught:
        Guard().check(address)
    assert isinstance(caught.value, DeliveryError)
    assert isinstance(caught.value, OSError)
    assert str(caught.value).isprintable()
    assert not Guard().allows(address)


@pytest.mark.parametrize("address", ALLOWED)
def test_allowed(address: str) -> None:
    Guard().check(address)
    assert Guard().allows(address)
    assert ip_address(address).is_global or address.startswith(("2001:", "3ff"))


def test_an_allow_list_opens_its_networks_and_no_others() -> None:
    guard = Guard((ip_network("127.0.0.0/8"), ip_network("fd00::/8")))
    for address in ("127.0.0.1", "127.255.255.255", "fd12::1", "1.1.1.1"):
        guard.check(address)
    for address in ("10.0.0.1", "128.0.0.1x", "fc00::1", "::1", "::ffff:127.0.0.1", "::7f00:1", "64:ff9b::7f00:1"):
        with pytest.raises(RefusedAddress):
            guard.check(address)
    guard = Guard((ip_network("::ffff:127.0.0.0/104"),))
    guard.check("::ffff:127.0.0.1")
    assert not guard.allows("127.0.0.1")


def test_why_is_said() -> None:
    with pytest.raises(RefusedAddress, match=r"address 10\.0\.0\.1 is in 10\.0\.0\.0/8, which is refused; allow its"):
        Guard().check("10.0.0.1")
    with pytest.raises(RefusedAddress, match=r"address ::1 is outside 2000::/3"):
        Guard().check("::1")
