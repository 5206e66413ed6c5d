# SPDX-License-Identifier: Apache-2.0
"""Which addresses may be dialled: the guard that every connection passes, whatever opened it."""

from ipaddress import IPv4Address, IPv4Network, IPv6Network, ip_address
from typing import Final

from ojak.errors import ConfigError, DeliveryError, shown

# SPEC section 3. The standard library's `is_global` is wrong for translated and mapped addresses.
_IPV4_REFUSED: Final = tuple(
    map(
        IPv4Network,
        (
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
        ),
    )
)
_IPV6_ALLOWED: Final = IPv6Network("2000::/3")
_IPV6_REFUSED: Final = tuple(
    map(IPv6Network, ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20", "2620:4f:8000::/48"))
)


class RefusedAddress(DeliveryError, OSError):
    """An address that may not be dialled. An OSError too, so that a connector goes on to the next address of a name.

    Attributes:
        address: the address, as text.
    """

    def __init__(self, address: str, why: str) -> None:
        super().__init__(f"address {address} {why}; allow its network if it is yours")
        self.address = address


class Guard:
    """Refuses private, loopback, link-local, multicast, mapped, translated and reserved addresses.

    `allow` are networks whose addresses may be dialled all the same: an operator's own, or a test's loopback. An
    IPv4 network allows no IPv6 address that maps to it.

    Source: SPEC section 3.
    """

    __slots__ = ("_allow4", "_allow6", "allow")

    def __init__(self, allow: tuple[IPv4Network | IPv6Network, ...] = ()) -> None:
        if not isinstance(allow, tuple | list) or not all(isinstance(one, IPv4Network | IPv6Network) for one in allow):  # type: ignore[redundant-expr]
            raise ConfigError(f"allow is {shown(allow)}; allowed is a tuple of IPv4Network and IPv6Network")
        self.allow = allow
        self._allow4 = _masks(allow, 4)
        self._allow6 = _masks(allow, 6)

    def check(self, address: str) -> None:
        """Raise RefusedAddress unless the address may be dialled. `address` is numeric, as `connect` will get it."""
        try:
            parsed = ip_address(address)
        except ValueError:
            raise RefusedAddress(ascii(address), "is no IP address") from None
        number = int(parsed)
        if isinstance(parsed, IPv4Address):
            if (found := _within(number, _REFUSED4)) is not None and _within(number, self._allow4) is None:
                raise RefusedAddress(address, f"is in {found}, which is refused")
        elif _within(number, _GLOBAL6) is None:
            if _within(number, self._allow6) is None:
                raise RefusedAddress(address, f"is outside {_IPV6_ALLOWED}, which is refused")
        elif (found := _within(number, _REFUSED6)) is not None and _within(number, self._allow6) is None:
            raise RefusedAddress(address, f"is in {found}, which is refused")

    def allows(self, address: str) -> bool:
        """Tell whether the address may be dialled."""
        try:
            self.check(address)
        except RefusedAddress:
            return False
        return True


_Masks = tuple[tuple[int, int, str], ...]


def _masks(networks: tuple[IPv4Network | IPv6Network, ...], version: int) -> _Masks:
    """Networks as integers, which are tested in a tenth of the time."""
    return tuple(
        (int(network.network_address), int(network.netmask), str(network))
        for network in networks
        if network.version == version
    )


def _within(number: int, masks: _Masks) -> str | None:
    for network, mask, text in masks:
        if number & mask == network:
            return text
    return None


_REFUSED4: Final = _masks(_IPV4_REFUSED, 4)
_REFUSED6: Final = _masks(_IPV6_REFUSED, 6)
_GLOBAL6: Final = _masks((_IPV6_ALLOWED,), 6)
