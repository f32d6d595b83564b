"""A proxy between clients and the broker that sees the requests and can hold one of them back.

`repeat_next_end` has the next EndTxn delivered, and breaks the connection before its answer is out, so that the
client connects anew and asks again. The old connection to the broker stays open, and `deliver_late` sends the same
EndTxn on it once more, when the client is in the middle of its next transaction (KAFKA-17754). `hold_next_end` does
the same with a request that had not been delivered at all.
"""

from __future__ import annotations

import asyncio
import struct
import threading
from collections.abc import Coroutine
from typing import Any

API_VERSIONS, METADATA, FIND_COORDINATOR, END_TXN = 18, 3, 10, 26
_SIZE = struct.Struct(">i")
_HEADER = struct.Struct(">hhi")
TIMEOUT_S = 30


class LateEnd:
    """An EndTxn that has not been forgotten by the network."""

    def __init__(self, frame: bytes, writer: asyncio.StreamWriter) -> None:
        self.frame = frame
        self.writer = writer


class Proxy:
    """In a thread of its own, at a port that the broker advertises as its own."""

    def __init__(self, port: int, broker_port: int) -> None:
        self._port = port
        self._broker_port = broker_port
        self._mode: str | None = None
        self._late: list[LateEnd] = []
        self._writers: set[asyncio.StreamWriter] = set()
        self.ends_seen = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._server = self._run(asyncio.start_server(self._serve, "127.0.0.1", port))

    def repeat_next_end(self) -> None:
        self._mode = "repeat"

    def hold_next_end(self) -> None:
        self._mode = "hold"

    @property
    def has_late_end(self) -> bool:
        return bool(self._late)

    def deliver_late(self) -> None:
        """Send what was held back, and wait until the broker has answered it."""
        late, self._late = self._late, []
        for end in late:
            self._run(self._deliver(end))

    def close(self) -> None:
        async def stop() -> None:
            self._server.close()
            tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for writer in self._writers:
                writer.close()
            await asyncio.gather(*(writer.wait_closed() for writer in self._writers), return_exceptions=True)

        self._run(stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(TIMEOUT_S)

    async def _deliver(self, end: LateEnd) -> None:
        answered: asyncio.Future[None] = self._loop.create_future()
        end.writer.answered = answered  # type: ignore[attr-defined]
        end.writer.write(end.frame)
        await end.writer.drain()
        await asyncio.wait_for(answered, TIMEOUT_S)
        self._close(end.writer)

    def _close(self, writer: asyncio.StreamWriter) -> None:
        writer.close()
        self._writers.discard(writer)

    async def _serve(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        self._writers.add(to_client)
        from_broker, to_broker = await asyncio.open_connection("127.0.0.1", self._broker_port)
        self._writers.add(to_broker)
        answers = asyncio.create_task(self._answers(from_broker, to_broker, to_client))
        try:
            while True:
                frame = await _read_frame(client)
                key, _, _ = _HEADER.unpack_from(frame, _SIZE.size)
                if key == END_TXN:
                    self.ends_seen += 1
                    if self._mode is not None:
                        mode, self._mode = self._mode, None
                        await self._make_late(mode, frame, to_broker, to_client)
                        return
                to_broker.write(frame)
        except (asyncio.IncompleteReadError, ConnectionError):
            answers.cancel()
            self._close(to_broker)
        finally:
            self._close(to_client)

    async def _make_late(
        self, mode: str, frame: bytes, to_broker: asyncio.StreamWriter, to_client: asyncio.StreamWriter
    ) -> None:
        """The client is cut off; the connection to the broker lives on."""
        to_client.transport.abort()
        if mode == "repeat":
            to_broker.write(frame)
        self._late.append(LateEnd(frame, to_broker))

    async def _answers(
        self, from_broker: asyncio.StreamReader, to_broker: asyncio.StreamWriter, to_client: asyncio.StreamWriter
    ) -> None:
        try:
            while True:
                frame = await _read_frame(from_broker)
                answered = getattr(to_broker, "answered", None)
                if answered is not None:
                    if not answered.done():
                        answered.set_result(None)
                elif not to_client.is_closing():
                    to_client.write(frame)
        except (asyncio.IncompleteReadError, ConnectionError):
            to_client.close()


async def _read_frame(reader: asyncio.StreamReader) -> bytes:
    size = await reader.readexactly(_SIZE.size)
    return size + await reader.readexactly(_SIZE.unpack(size)[0])
