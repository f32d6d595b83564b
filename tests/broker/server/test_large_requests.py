"""Large requests take turns, but none waits for what another one waits for."""

from __future__ import annotations

import asyncio
import gc
from types import SimpleNamespace
from typing import Any

from oncelog.broker.base.turns import Turns
from oncelog.broker.handlers import delete_groups, list_offsets
from oncelog.broker.server.large_requests import LargeRequests
from oncelog.protocol.codec import encode
from oncelog.protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from oncelog.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from oncelog.protocol.schema import Message


def no_refusal(_: Message, error: Exception) -> None:
    raise error


async def test_a_request_that_waits_does_not_hold_up_the_others() -> None:
    large = LargeRequests(Turns())
    may_go_on = asyncio.Event()

    async def delete(request: DeleteGroupsRequest, _: Any) -> DeleteGroupsResponse:
        await may_go_on.wait()
        return DeleteGroupsResponse(results=[DeletableGroupResult(group_id=name) for name in request.groups_names])

    def list_all(_: ListOffsetsRequest, __: Any) -> ListOffsetsResponse:
        return ListOffsetsResponse()

    def answer(request: Message, version: int, module: Any, handle: Any) -> asyncio.Task[Message | None]:
        frame = memoryview(encode(request, version))
        context: Any = SimpleNamespace(version=version)
        return asyncio.ensure_future(
            large.answer(
                type(request), frame, 0, 10_000, module.CHUNKS, handle, lambda wrapped: wrapped, no_refusal, context
            )
        )

    was_enabled = gc.isenabled()
    names = [f"g{number}" for number in range(50)]
    waiting = answer(DeleteGroupsRequest(groups_names=names), 2, delete_groups, delete)
    partitions = [ListOffsetsPartition(partition_index=index, timestamp=-1) for index in range(60)]
    listing = answer(
        ListOffsetsRequest(topics=[ListOffsetsTopic(name="t", partitions=partitions)]), 7, list_offsets, list_all
    )
    assert isinstance(await listing, ListOffsetsResponse)
    assert not waiting.done()
    assert gc.isenabled() == was_enabled
    may_go_on.set()
    deleted = await waiting
    assert isinstance(deleted, DeleteGroupsResponse)
    assert [result.group_id for result in deleted.results] == names
    assert gc.isenabled() == was_enabled
    large.close()


async def test_a_request_that_is_given_up_while_it_waits_leaves_its_place() -> None:
    large = LargeRequests(Turns())
    frame = memoryview(encode(DeleteGroupsRequest(groups_names=["g"] * 50), 2))
    context: Any = SimpleNamespace(version=2)
    entered = asyncio.Event()

    async def never(_: DeleteGroupsRequest, __: Any) -> DeleteGroupsResponse:
        entered.set()
        await asyncio.Event().wait()
        raise AssertionError

    async def at_once(_: DeleteGroupsRequest, __: Any) -> DeleteGroupsResponse:
        return DeleteGroupsResponse()

    def answer(handle: Any) -> asyncio.Task[Message | None]:
        return asyncio.ensure_future(
            large.answer(
                *(DeleteGroupsRequest, frame, 0, 10_000, delete_groups.CHUNKS, handle),
                *(lambda wrapped: wrapped, no_refusal, context),
            )
        )

    given_up = answer(never)
    await entered.wait()
    given_up.cancel()
    await asyncio.gather(given_up, return_exceptions=True)
    assert isinstance(await answer(at_once), DeleteGroupsResponse)
    large.close()
