"""Operations of the transaction coordinator that may need a fresh producer id, and whom they are done for."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from oncelog.broker.base.immediate_future import Promise
from oncelog.broker.coordinator.txn.memory import Client
from oncelog.broker.coordinator.txn.requests import NeedsProducerId

if TYPE_CHECKING:
    from oncelog.broker.base.now import Now
    from oncelog.broker.coordinator.contract import Result
    from oncelog.broker.coordinator.txn.coordinator import TransactionCoordinator
    from oncelog.broker.requests.context import RequestContext
    from oncelog.broker.requests.services import Services

_CLIENT_ID_SIZE_MAX = 255

R = TypeVar("R")


def client_of(context: RequestContext) -> Client:
    """Kept for as long as the transactional id is, so a client id without measure is cut."""
    return Client(context.peer.peer_address, (context.client_id or "")[:_CLIENT_ID_SIZE_MAX])


async def run_with_producer_id(
    services: Services,
    transactional_id: str,
    operation: Callable[[TransactionCoordinator, Now, int | None], Result[R]],
) -> R:
    """Run the operation, with a new producer id if it turns out to want one."""
    new_producer_id: int | None = None
    while True:

        def attempt(coordinator: TransactionCoordinator, now: Now, fresh: int | None = new_producer_id) -> Result[R]:
            return operation(coordinator, now, fresh)

        try:
            reply = services.transactions.run(transactional_id, attempt)
            return await reply if isinstance(reply, Promise) or inspect.isawaitable(reply) else reply
        except NeedsProducerId:
            new_producer_id = await services.producer_ids.next_id()
