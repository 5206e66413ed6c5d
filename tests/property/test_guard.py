# SPDX-License-Identifier: Apache-2.0
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from hypothesis import given
from hypothesis import strategies as st

from ojak.http.guard import Guard

# SPEC section 3, written once more in its own short form: an oracle that shares nothing with the code.
IPV4 = [
    "0/8 10/8 100.64/10 127/8 169.254/16 172.16/12 192.0.0/24 192.0.2/24 192.31.196/24 192.52.193/24 192.88.99/24",
    "192.168/16 192.175.48/24 198.18/15 198.51.100/24 203.0.113/24 224/4 240/4",
]
IPV6 = ["2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20", "2620:4f:8000::/48"]


def whole(short: str) -> IPv4Network:
    address, length = short.split("/")
    return IPv4Network(f"{address}{'.0' * (3 - address.count('.'))}/{length}")


REFUSED4 = [whole(short) for line in IPV4 for short in line.split()]
REFUSED6 = list(map(IPv6Network, IPV6))
NETWORKS = st.sampled_from([*REFUSED4, *REFUSED6, IPv6Network("2000::/3"), IPv4Network("1.0.0.0/8")])
NEAR_EDGES = st.builds(
    lambda network, end, by: type(network[0])((int(network[end]) + by) % 2**network.max_prefixlen),
    NETWORKS,
    st.sampled_from([0, -1]),
    st.integers(-2, 2),
)
ADDRESSES = st.ip_addresses() | NEAR_EDGES


def allowed(address: IPv4Address | IPv6Address) -> bool:
    if isinstance(address, IPv4Address):
        return not any(address in network for network in REFUSED4)
    return address in IPv6Network("2000::/3") and not any(address in network for network in REFUSED6)


@given(ADDRESSES)
def test_the_guard_says_what_the_specification_says(address: IPv4Address | IPv6Address) -> None:
    assert Guard().allows(str(address)) == allowed(address)
    if isinstance(address, IPv6Address):
        assert Guard().allows(address.exploded) == allowed(address)


@given(ADDRESSES, st.lists(ADDRESSES.map(ip_network), max_size=3))
def test_an_allow_list_opens_exactly_its_networks(
    address: IPv4Address | IPv6Address, allow: list[IPv4Network | IPv6Network]
) -> None:
    listed = any(address in network for network in allow if network.version == address.version)
    assert Guard(tuple(allow)).allows(str(address)) == (allowed(address) or listed)


@given(st.text(max_size=40))
def test_what_is_no_address_is_refused(text: str) -> None:
    try:
        ip_address(text)
    except ValueError:
        assert not Guard().allows(text)
