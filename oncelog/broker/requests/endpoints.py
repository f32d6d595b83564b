"""How a client reaches the brokers: by the listener that it came in on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from oncelog.broker.metadata.image import BrokerImage, MetadataImage
    from oncelog.broker.requests.context import RequestContext


def endpoints(image: MetadataImage, context: RequestContext) -> Iterator[tuple[BrokerImage, str, int]]:
    """Brokers with host and port; one without this listener cannot be reached from here and is left out."""
    for broker in image.brokers.values():
        endpoint = broker.listeners.get(context.peer.listener_name)
        if endpoint is not None:
            yield broker, *endpoint
