from __future__ import annotations

import json

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from oncelog.testing import Broker
from tests.cli.conftest import Run


def transactional(bootstrap_servers: str, topic: str) -> Producer:
    producer = Producer({"bootstrap.servers": bootstrap_servers, "transactional.id": topic, "log_level": 0})
    producer.init_transactions(30)
    return producer


def in_transaction(producer: Producer, topic: str, count: int) -> None:
    producer.begin_transaction()
    for _ in range(count):
        producer.produce(topic, b"value", partition=0)
    producer.flush(30)


def test_markers_and_aborted_records_are_not_counted(run: Run, topic: str, bootstrap_servers: str) -> None:
    producer = transactional(bootstrap_servers, topic)
    in_transaction(producer, topic, 3)
    producer.commit_transaction(30)
    in_transaction(producer, topic, 5)
    producer.abort_transaction(30)
    in_transaction(producer, topic, 7)
    described = run("topics", "describe", topic).out.splitlines()
    assert described[0].endswith("3 partitions, 3 records)")
    # Two markers and the records of the aborted and of the open transaction have offsets, too.
    assert described[2].split()[4:7] == ["0", "17", "3"]
    producer.commit_transaction(30)
    assert run("topics", "describe", topic).out.splitlines()[0].endswith("3 partitions, 10 records)")
    (listed,) = [line for line in run("topics", "list").out.splitlines() if line.startswith(f"{topic} ")]
    assert listed.split()[3] == "10"
    found = json.loads(run("topics", "describe", topic, "--json").out)
    assert (found["records"], found["records_exact"]) == (10, True)
    assert [each["record_count"] for each in found["partitions"]] == [10, 0, 0]


def test_records_before_the_start_of_the_log_are_not_counted(run: Run, topic: str, bootstrap_servers: str) -> None:
    run("produce", topic, "-p", "0", stdin=b"1\n2\n3\n4\n5\n")
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})
    for deleted in admin.delete_records([TopicPartition(topic, 0, 2)]).values():
        deleted.result(30)
    assert run("topics", "describe", topic).out.splitlines()[0].endswith("3 partitions, 3 records)")


def test_a_large_partition_is_not_counted(run: Run, topic: str) -> None:
    run("produce", topic, "-p", "0", stdin=(b"x" * 1000 + b"\n") * 1200)
    run("produce", topic, "-p", "1", stdin=b"a\n")
    described = run("topics", "describe", topic).out.splitlines()
    assert described[0].endswith("3 partitions, ≤1,201 records)")
    assert described[2].split()[6] == "≤1,200"
    assert described[3].split()[6] == "1"
    found = json.loads(run("topics", "describe", topic, "--json").out)
    assert (found["records"], found["records_exact"]) == (1201, False)


def test_no_topics_at_all(run: Run) -> None:
    with Broker() as broker:
        none = (0, "There are no topics. Create one: oncelog topics create NAME\n", "")
        assert run("topics", "list", "-b", broker.bootstrap_servers) == none
        assert run("topics", "describe", "-b", broker.bootstrap_servers) == none
        assert run("topics", "describe", "--json", "-b", broker.bootstrap_servers) == (0, "[]\n", "")


def test_a_topic_from_creation_to_deletion(run: Run, topic: str) -> None:
    name = f"{topic}-more"
    created = run("topics", "create", name, "--partitions", "2", "--config", "retention.ms=1000000")
    assert created == (0, f"Topic {name} created: 2 partitions.\n", "")
    altered = run("topics", "alter", name, "-p", "4", "-c", "cleanup.policy=compact", "-d", "retention.ms")
    assert altered.out == (
        f"Topic {name} altered: cleanup.policy=compact, retention.ms has its default, 4 partitions.\n"
    )
    described = json.loads(run("topics", "describe", name, "--json").out)
    assert [each["partition"] for each in described["partitions"]] == [0, 1, 2, 3]
    assert described["configs"] == {"cleanup.policy": "compact"}
    assert run("topics", "delete", name) == (0, f"Topic {name} deleted.\n", "")
    assert run("topics", "describe", name) == (
        1,
        "",
        f"oncelog topics: there is no topic '{name}'; oncelog topics list shows those that exist\n",
    )


def test_list_shows_partitions_records_and_size(run: Run, topic: str) -> None:
    run("produce", topic, "-p", "1", stdin=b"a\nb\nc\n")
    listed = run("topics", "list")
    header, *lines = listed.out.splitlines()
    assert header.split() == ["TOPIC", "PARTITIONS", "REPLICAS", "RECORDS", "SIZE"]
    (line,) = [line for line in lines if line.split()[0] == topic]
    assert line.split()[1:4] == ["3", "1", "3"]
    assert line.split()[5] == "B"
    (found,) = [each for each in json.loads(run("topics", "list", "--json").out) if each["name"] == topic]
    assert (found["partition_count"], found["records"], found["internal"]) == (3, 3, False)
    assert found["size_bytes"] > 60


def test_describe_shows_partitions_and_configs(run: Run, topic: str) -> None:
    run("produce", topic, "-p", "2", stdin=b"a\nb\n")
    run("topics", "alter", topic, "-c", "retention.ms=7777777")
    lines = run("topics", "describe", topic).out.splitlines()
    assert lines[0].startswith(f"{topic}  (id ")
    assert lines[0].endswith("3 partitions, 2 records)")
    assert lines[1].split() == ["PARTITION", "LEADER", "REPLICAS", "IN", "SYNC", "START", "END", "RECORDS", "SIZE"]
    assert lines[4].split()[:7] == ["2", "1", "1", "1", "0", "2", "2"]
    assert lines[6].split() == ["retention.ms", "7777777"]
    assert "max.message.bytes" in run("topics", "describe", topic, "--all-configs").out
    assert topic in run("topics", "describe").out


def test_refusals_are_one_line_and_exit_code_1(run: Run, topic: str) -> None:
    for args, code in (
        (["create", topic], "TOPIC_ALREADY_EXISTS"),
        (["create", "not a name"], "INVALID_TOPIC_EXCEPTION"),
        (["create", f"{topic}x", "-c", "no.such=1"], "INVALID_CONFIG"),
        (["create", f"{topic}x", "-r", "7"], "INVALID_REPLICATION_FACTOR"),
        (["alter", topic, "-p", "1"], "INVALID_PARTITIONS"),
    ):
        result = run("topics", *args)
        assert (result.code, result.out) == (1, "")
        assert result.err.startswith(f"oncelog topics: {code}: ")
        assert result.err.count("\n") == 1
    unknown = f"oncelog topics: there is no topic '{topic}x'; oncelog topics list shows those that exist\n"
    for args in (["delete"], ["alter", "-p", "9"], ["describe"], ["alter", "-c", "retention.ms=1"]):
        assert run("topics", args[0], f"{topic}x", *args[1:]) == (1, "", unknown)


def test_what_can_be_deleted_is_deleted(run: Run, topic: str) -> None:
    code, out, err = run("topics", "delete", "nobody", topic)
    assert (code, out) == (1, f"Topic {topic} deleted.\n")
    assert err == "oncelog topics: there is no topic 'nobody'; oncelog topics list shows those that exist\n"


def test_create_if_not_exists(run: Run, topic: str) -> None:
    assert run("topics", "create", topic, "--if-not-exists") == (0, f"Topic {topic} exists: 3 partitions.\n", "")
    created = json.loads(run("topics", "create", f"{topic}-n", "--if-not-exists", "--json").out)
    assert created["created"] is True


def test_internal_topics_are_shown_on_demand(run: Run, topic: str) -> None:
    names = [each["name"] for each in json.loads(run("topics", "list", "--internal", "--json").out)]
    assert topic in names
