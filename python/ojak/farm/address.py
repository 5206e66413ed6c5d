# SPDX-License-Identifier: Apache-2.0
"""Names and loopback addresses of the farm's hosts: `h00042.farm.test` lives at 127.1.0.42."""

from ipaddress import IPv4Address, IPv4Network

LOOPBACK = IPv4Network("127.0.0.0/8")
MAX_HOSTS = 99_999
"""The five digits of a host's name."""

_FIRST = int(IPv4Address("127.1.0.0"))


def host_name(number: int, domain: str) -> str:
    """The name of the host `number`, counted from 1."""
    return f"h{number:05d}.{domain}"


def host_address(number: int) -> str:
    """The address of the host `number`: 127.1.0.0 plus the number, so that each host has one of its own."""
    return str(IPv4Address(_FIRST + number))
