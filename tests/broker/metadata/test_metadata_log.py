"""What a person reads in the log about changes of the metadata."""

from __future__ import annotations

import logging

import pytest

from oncelog.client.admin import Admin
from oncelog.client.cluster import Cluster
from oncelog.protocol.messages import alter_user_scram_credentials
from oncelog.testing import Broker


def test_changes_are_told_in_one_line_each(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="oncelog")
    with Broker() as broker, Cluster(broker.bootstrap_servers) as cluster:
        admin = Admin(cluster)
        admin.create_topic("orders", partitions=2, configs={"retention.ms": "1000"})
        admin.create_partitions("orders", 3)
        admin.alter_configs("orders", values={"segment.bytes": "1048576"}, deleted=["retention.ms"])
        admin.delete_topic("orders")
    told = [record.getMessage() for record in caplog.records if record.name.endswith("metadata_log")]
    assert told == [
        "topic orders is created with 2 partitions",
        "settings of topic orders: retention.ms=1000",
        "topic orders has 3 partitions now, 2 before",
        "settings of topic orders: retention.ms back to its default, segment.bytes=1048576",
        "topic orders is deleted",
    ]


def test_users_are_named_and_their_passwords_are_not(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="oncelog")
    api = alter_user_scram_credentials
    upsertion = api.ScramCredentialUpsertion(
        name="me\n", mechanism=1, iterations=4096, salt=b"hush", salted_password=b"hush" * 8
    )
    deletion = api.ScramCredentialDeletion(name="me\n", mechanism=1)
    with Broker() as broker, Cluster(broker.bootstrap_servers) as cluster:
        for request in (
            api.AlterUserScramCredentialsRequest(upsertions=[upsertion]),
            api.AlterUserScramCredentialsRequest(deletions=[deletion]),
        ):
            assert cluster.ask_any(request, api.AlterUserScramCredentialsResponse).results[0].error_code == 0
    told = [record.getMessage() for record in caplog.records if record.name.endswith("metadata_log")]
    assert told == [
        r"user 'me\n': SCRAM credentials for SCRAM-SHA-256",
        r"user 'me\n': SCRAM credentials for no mechanism",
    ]
    assert "hush" not in caplog.text


def test_a_start_after_a_crash_says_what_it_did(caplog: pytest.LogCaptureFixture) -> None:
    with Broker(subprocess=True) as broker, Cluster(broker.bootstrap_servers) as cluster:
        Admin(cluster).create_topic("orders")
        broker.kill()
        caplog.set_level(logging.INFO, logger="oncelog")
        with Broker(data_dir=broker.data_dir):
            assert any("no clean stop: 1 partitions were checked" in record.getMessage() for record in caplog.records)
