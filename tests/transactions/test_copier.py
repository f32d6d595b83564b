"""What the copying programs rest on, tried on its own."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

import pytest
from copier import await_partitions
from reading import create_topic

from oncelog.testing import Broker

# kafka-python reads its schemas in a way that Python 3.11 warns of.
pytestmark = pytest.mark.filterwarnings("ignore:.*_text is deprecated:DeprecationWarning")


def test_a_copier_waits_for_its_topic_and_not_for_ever(broker: Broker, unique: Callable[[str], str]) -> None:
    from kafka import KafkaConsumer

    topic = unique("source")
    with closing(KafkaConsumer(bootstrap_servers=broker.bootstrap_servers)) as consumer:
        with pytest.raises(TimeoutError, match=f"no topic {topic} within 0.1 s"):
            await_partitions(consumer, topic, 0.1)
        create_topic(broker.bootstrap_servers, topic, 3)
        await_partitions(consumer, topic, 60)
        assert consumer.partitions_for_topic(topic) == {0, 1, 2}
