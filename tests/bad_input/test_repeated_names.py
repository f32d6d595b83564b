"""A request that names one thing very often is told once what there is to say about it."""

from __future__ import annotations

import pytest

from oncelog.broker.handlers import describe_configs
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from oncelog.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from oncelog.protocol.messages.describe_groups import DescribeGroupsRequest
from oncelog.protocol.messages.describe_transactions import DescribeTransactionsRequest
from tests.bad_input.conftest import Target
from tests.bad_input.raw import RawClient
from tests.bad_input.requests import create_topic
from tests.transactions.wire_producer import NEW, TxnProducer

TIMES = 1500
"""Enough to be decoded in a thread."""
TOPIC, BROKER, GROUP = 2, 4, 32


def test_a_transaction(client: RawClient) -> None:
    create_topic(client, "of-a-repeated-transaction")
    producer = TxnProducer(client, NEW)
    producer.add("of-a-repeated-transaction")
    request = DescribeTransactionsRequest(transactional_ids=["nobody", *[producer.name] * TIMES])
    nobody, state = client.call(request, 0).transaction_states
    assert (nobody.transactional_id, state.transactional_id) == ("nobody", producer.name)
    assert [topic.topic for topic in state.topics] == ["of-a-repeated-transaction"]
    assert producer.end() == 0


def test_groups_of_both_kinds(client: RawClient) -> None:
    names = ["b", *["a"] * TIMES, "b"]
    assert [group.group_id for group in client.call(DescribeGroupsRequest(groups=names), 6).groups] == ["b", "a"]
    answer = client.call(ConsumerGroupDescribeRequest(group_ids=names), 1)
    assert [group.group_id for group in answer.groups] == ["b", "a"]


def test_settings(client: RawClient, target: Target) -> None:
    resources = [
        DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)
        for _ in range(TIMES)
        for kind, name, keys in (
            (BROKER, "1", None),
            (TOPIC, target.name, None),
            (TOPIC, target.name, ["retention.ms"]),
            (TOPIC, "nothing", None),
        )
    ]
    results = client.call(DescribeConfigsRequest(resources=resources), 4).results
    assert [(result.resource_name, len(result.configs) > 1, result.error_code) for result in results] == [
        ("1", True, 0),
        (target.name, True, 0),
        (target.name, False, 0),
        ("nothing", False, 3),
    ]


def test_settings_of_more_than_an_answer_may_have(client: RawClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(describe_configs, "ANSWER_BYTES_MAX", 10_000)
    resources = [DescribeConfigsResource(resource_type=GROUP, resource_name=f"g{number}") for number in range(1000)]
    results = client.call(DescribeConfigsRequest(resources=resources, include_documentation=True), 4).results
    codes = [result.error_code for result in results]
    assert codes == sorted(codes)
    assert set(codes) == {0, ErrorCode.INVALID_REQUEST}
    assert {bool(result.configs) for result in results if result.error_code} == {False}
