"""Operations of the transaction coordinator that may need a fresh producer id."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from oncelog.broker.coordinator.transactions.requests import NeedsProducerId

if TYPE_CHECKING:
    from oncelog.broker.coordinator.contract import Result
    from oncelog.broker.coordinator.transactions.coordinator import TransactionCoordinator
    from oncelog.broker.runtime.services import Services

R = TypeVar("R")


async def run_with_producer_id(
    services: Services,
    transactional_id: str,
    operation: Callable[[TransactionCoordinator, int, int | None], Result[R]],
) -> R:
    """Run the operation, with a new producer id if it turns out to want one."""
    new_producer_id: int | None = None
    while True:

        def attempt(coordinator: TransactionCoordinator, now_ms: int, fresh: int | None = new_producer_id) -> Result[R]:
            return operation(coordinator, now_ms, fresh)

        try:
            reply = services.transactions.run(transactional_id, attempt)
            return await reply if inspect.isawaitable(reply) else reply
        except NeedsProducerId:
            new_producer_id = await services.producer_ids.next_id()
