# SPDX-License-Identifier: Apache-2.0
"""What the transport uses of aiohttp beyond its documentation. Should one of these fail after an upgrade, read the
release's changes to connections and to the parser before anything else."""

import asyncio
import inspect
from typing import Any

import aiohttp
import pytest
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.streams import EMPTY_PAYLOAD, StreamReader
from yarl import URL

from ojak.http.door import Door

CHANGED = f"aiohttp {aiohttp.__version__} is not what ojak.http was written for"


def parameters(function: Any) -> list[str]:
    return list(inspect.signature(function).parameters)


def test_the_connector() -> None:
    assert parameters(aiohttp.TCPConnector.connect) == ["self", "req", "traces", "timeout"], CHANGED
    assert parameters(aiohttp.TCPConnector._create_connection) == ["self", "req", "traces", "timeout"], CHANGED
    assert {"protocol", "release"} <= set(dir(Connection)), CHANGED
    source = inspect.getsource(aiohttp.TCPConnector)
    # A factory of our own makes its protocols, and a socket factory its sockets.
    assert source.count("self._factory") >= 2, CHANGED
    assert "socket_factory=self._socket_factory" in source, CHANGED
    # What has something left to say is not kept.
    assert "protocol.should_close" in inspect.getsource(aiohttp.BaseConnector._release), CHANGED
    assert "is_connected()" in inspect.getsource(aiohttp.BaseConnector._get), CHANGED


def test_the_parameters_of_an_answer() -> None:
    wanted = {
        "read_until_eof",
        "auto_decompress",
        "read_bufsize",
        "max_line_size",
        "max_field_size",
        "max_headers",
    }
    assert wanted <= set(parameters(ResponseHandler.set_response_params)), CHANGED


async def test_the_protocol() -> None:
    handler = ResponseHandler(asyncio.get_running_loop())
    handler.set_response_params(read_until_eof=True, auto_decompress=False)
    handler.data_received(b"HTTP/1.1 103 Hints\r\n\r\nHTTP/1.1 404 No\r\nX: y\r\nContent-Length: 2\r\n\r\nno")
    interim, _ = await handler.read()
    message, content = await handler.read()
    assert (interim.code, message.code, message.headers["x"]) == (103, 404, "y"), CHANGED
    assert isinstance(content, StreamReader), CHANGED
    assert (content.is_eof(), content.total_bytes, content.exception()) == (True, 2, None), CHANGED
    assert (content.read_nowait(9), content.at_eof()) == (b"no", True), CHANGED
    kept = handler.should_close
    handler.force_close()
    assert (kept, handler.should_close) == (False, True), CHANGED
    assert (EMPTY_PAYLOAD.is_eof(), EMPTY_PAYLOAD.total_bytes, EMPTY_PAYLOAD.exception()) == (True, 0, None), CHANGED


async def test_the_errors_of_the_protocol() -> None:
    handler = ResponseHandler(asyncio.get_running_loop())
    handler.set_response_params()
    handler.data_received(b"hello\r\n\r\n")
    assert isinstance(handler.exception(), HttpProcessingError), CHANGED
    with pytest.raises(HttpProcessingError):
        await handler.read()
    handler = ResponseHandler(asyncio.get_running_loop())
    handler.connection_lost(None)
    with pytest.raises(aiohttp.ServerDisconnectedError):
        await handler.read()


async def test_a_door_is_a_request_to_the_connector() -> None:
    loop = asyncio.get_running_loop()
    door = Door("https://xn--0.test:8443", proxy=None, loop=loop)
    plain = aiohttp.ClientRequest("POST", door.url, loop=loop)
    assert door.connection_key == plain.connection_key, CHANGED
    assert (door.authority, door.host, door.port, door.is_ssl()) == ("xn--0.test:8443", "xn--0.test", 8443, True)
    proxied = Door("http://h.test", proxy=URL("http://u:p@proxy.test:3128"), loop=loop)
    assert proxied.connection_key != Door("http://h.test", proxy=None, loop=loop).connection_key, CHANGED
    async with aiohttp.TCPConnector() as connector:
        # The connector notes the proxy's password in the request that it is given.
        connector._update_proxy_auth_header_and_build_proxy_req(proxied)
    assert proxied.headers["Proxy-Authorization"] == "Basic dTpw", CHANGED
