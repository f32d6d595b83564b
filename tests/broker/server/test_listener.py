"""A listener with real sockets: what connections have from it."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from oncelog.broker.app import BrokerApp
from oncelog.broker.config.load import load_config


async def send_buffer_bytes(directory: Path, option: str | None) -> int:
    options = [f"log.dirs={directory}", "listeners=PLAINTEXT://127.0.0.1:0", *([option] if option else [])]
    app = BrokerApp(load_config(options=options))
    await app.start()
    try:
        host, port = next(iter(app.bound.values()))
        _, writer = await asyncio.open_connection(host, port)
        (listener,) = app._listeners
        while not listener._connections:
            await asyncio.sleep(0)
        (connection,) = listener._connections
        found: int = connection._transport.get_extra_info("socket").getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
        writer.close()
        await writer.wait_closed()
        return found
    finally:
        await app.stop()


@pytest.mark.parametrize(
    ("option", "size_bytes"), [(None, 102_400), ("socket.send.buffer.bytes=50000", 50_000)], ids=["default", "set"]
)
async def test_connections_have_the_send_buffer_of_the_setting(
    tmp_path: Path, option: str | None, size_bytes: int
) -> None:
    # Linux doubles it, for its own bookkeeping.
    assert await send_buffer_bytes(tmp_path, option) in (size_bytes, 2 * size_bytes)


async def test_the_system_decides_where_the_setting_leaves_it_to_it(tmp_path: Path) -> None:
    with socket.socket() as plain:
        usual = plain.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
    # It may have grown since the connection was made.
    assert await send_buffer_bytes(tmp_path, "socket.send.buffer.bytes=-1") >= usual
