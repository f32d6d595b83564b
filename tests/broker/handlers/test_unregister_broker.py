from __future__ import annotations

from pathlib import Path

import pytest

from oncelog.broker.handlers.unregister_broker import handle
from oncelog.broker.metadata.image import BrokerImage
from oncelog.broker.metadata.plans.cluster import plan_register_broker
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.messages.unregister_broker import UnregisterBrokerRequest
from tests.broker.handlers.config_services import BROKER_ID, config_services, context_of, over_the_wire

FORMER_ID = 7


async def test_a_broker_that_is_gone_is_forgotten(tmp_path: Path) -> None:
    async with config_services(tmp_path) as services:
        former = BrokerImage(FORMER_ID, None, {"PLAINTEXT": ("127.0.0.1", 9093)})
        await services.metadata.change(lambda image: plan_register_broker(image, former))
        request = UnregisterBrokerRequest(broker_id=FORMER_ID)
        answer = over_the_wire(await handle(request, context_of(services, 0)), 0)
        assert answer.error_code == ErrorCode.NONE
        assert services.metadata.image.brokers.keys() == {BROKER_ID}
        with pytest.raises(KafkaError) as caught:
            await handle(request, context_of(services, 0))
        assert caught.value.code == ErrorCode.BROKER_ID_NOT_REGISTERED


async def test_a_broker_that_runs_is_not(tmp_path: Path) -> None:
    async with config_services(tmp_path) as services:
        with pytest.raises(KafkaError) as caught:
            await handle(UnregisterBrokerRequest(broker_id=BROKER_ID), context_of(services, 0))
        assert caught.value.code == ErrorCode.INVALID_REQUEST
        assert services.metadata.image.brokers.keys() == {BROKER_ID}
