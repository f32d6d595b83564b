"""The evidence must be able to convict."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from oncelog.client.admin import Admin
from oncelog.client.cluster import Cluster
from oncelog.client.offsets import Isolation
from oncelog.client.producer import Producer
from oncelog.pipeline.audit import Audit, KillNote, course, read_kills
from oncelog.pipeline.config import ConfigError
from oncelog.pipeline.etl import lag
from oncelog.pipeline.evidence import (
    CommittedReader,
    aborted_offsets,
    batches_of_checkpoint,
    count_end,
    read_log,
    read_topic,
    torn_batches,
    transactional_ids,
    wait_for_growth,
    wait_for_open_transaction,
)
from oncelog.pipeline.report import Course, Heading, Section, Totals, write_report
from oncelog.pipeline.verdict import Offence, Seen, find_offences, judge
from oncelog.protocol.errors import KafkaError
from oncelog.spark.cluster import SinkCluster
from oncelog.spark.options import SinkOptions
from oncelog.spark.transaction import Transactions
from oncelog.testing import Broker
from tests.spark.test_source import delete_records, write_transaction

ENDS = [{"in": {"0": 2}}, {"in": {"0": 4}}]


def seen(*sources: str) -> list[Seen]:
    return [Seen(0, offset, source.encode()) for offset, source in enumerate(sources)]


def verdict(sources: list[str], aborted: set[tuple[int, int]] = frozenset()) -> dict[str, int]:  # type: ignore[assignment]
    found = judge(["0:0", "0:1", "0:2"], seen(*sources), sources, set(aborted))
    kept = ("lost", "duplicated", "unexpected", "aborted_visible", "out_of_order")
    return {name: getattr(found, name) for name in kept if getattr(found, name)}


@pytest.fixture
def broker() -> Iterator[Broker]:
    """A broker with the topic `t`."""
    with Broker() as running:
        with Cluster(running.bootstrap_servers) as cluster:
            Admin(cluster).create_topic("t", partitions=1)
        yield running


def test_verdicts() -> None:
    assert verdict(["0:0", "0:1", "0:2"]) == {}
    assert verdict(["0:0", "0:2"]) == {"lost": 1}
    assert verdict(["0:0", "0:1", "0:1", "0:2"]) == {"duplicated": 1}
    assert verdict(["0:0", "0:1", "0:2", "9:9", "what"]) == {"unexpected": 2}
    assert verdict(["0:1", "0:0", "0:2"]) == {"out_of_order": 1}
    assert verdict(["0:0", "0:1", "0:2"], {(0, 1)}) == {"aborted_visible": 1}


@pytest.mark.parametrize(("stops", "torn"), [({0, 2, 4}, []), ({1}, [0]), ({3}, [1]), ({1, 3}, [0, 1])])
def test_a_reader_that_saw_half_a_batch(stops: set[int], torn: list[int]) -> None:
    records = seen("0:0", "0:1", "0:2", "0:3")
    assert torn_batches(records, {0: stops}, "in", ENDS) == torn


def test_batches_are_read_from_the_checkpoint(tmp_path: Path) -> None:
    logs = tmp_path / "offsets"
    logs.mkdir()
    for number, end in enumerate(ENDS):
        (logs / str(number)).write_text(f'v1\n{{"batchWatermarkMs":0}}\n{json.dumps(end)}')
    (logs / ".0.crc").write_text("x")
    assert batches_of_checkpoint(tmp_path) == ENDS


def test_lag_of_the_sources() -> None:
    first = {"endOffset": {"t": {"0": 5, "1": 1}}, "latestOffset": {"t": {"0": 9, "1": 1}}}
    second = {"endOffset": '{"t":{"0":5}}', "latestOffset": '{"t":{"0":6,"1":3}}'}
    assert lag([first]) == 4
    assert lag([first, second]) == 5
    # So does a batch look that was planned before the query was started again: nobody has asked for the ends yet.
    assert lag([first, {"endOffset": {"t": {"0": 5}}, "latestOffset": None}]) is None
    assert lag([{"endOffset": 5, "latestOffset": 6}]) is None


def test_aborted_records_are_found_in_the_log_itself() -> None:
    with Broker() as broker:
        servers = broker.bootstrap_servers
        with Cluster(servers) as cluster:
            Admin(cluster).create_topic("t", partitions=1)
        reader = CommittedReader(servers, "t")
        reader.start()
        options = SinkOptions(servers, "id", group_id="id")
        with SinkCluster.open(options) as cluster:
            transactions = Transactions(cluster, options)
            for commit in (True, False, True):
                identity = transactions.fence()
                transactions.add_partitions([("t", 0)])
                with Producer(cluster, identity=identity, transactional_id="id") as producer:
                    producer.produce("t", b"x", partition=0)
                    producer.produce("t", b"y", partition=0)
                assert wait_for_open_transaction(servers, "t", 60, lambda: False)
                if commit:
                    transactions.commit()
            transactions.fence()
        assert not wait_for_open_transaction(servers, "t", 0.01, lambda: False)
        assert not wait_for_growth(servers, "t", 0.01, lambda: False)
        assert aborted_offsets(servers, "t") == {(0, 3), (0, 4)}
        assert [each.offset for each in read_topic(servers, "t", Isolation.READ_COMMITTED)] == [0, 1, 6, 7]
        assert len(read_topic(servers, "t", Isolation.READ_UNCOMMITTED)) == 6
        assert count_end(servers, "t") == 9
        while len(reader.seen) < 4:
            assert reader.is_alive()
        reader.stop()
        assert [each.offset for each in reader.seen] == [0, 1, 6, 7]
        # It may come late and stop at few places, but never inside a transaction.
        assert reader.stops[0] <= {0, 3, 6, 9}
    assert count_end(servers, "t") == 0


def test_aborted_records_are_found_behind_the_start_of_the_log(broker: Broker) -> None:
    servers = broker.bootstrap_servers
    write_transaction(servers, "t", range(3), commit=True)
    with Cluster(servers) as cluster:
        delete_records(cluster, "t", 0, 4)
    write_transaction(servers, "t", range(2), commit=False)
    assert aborted_offsets(servers, "t") == {(0, 4), (0, 5)}


def test_a_log_that_cannot_be_read_is_no_evidence(broker: Broker) -> None:
    servers = broker.bootstrap_servers
    write_transaction(servers, "t", range(2), commit=False)
    broker.faults.inject("Fetch", "error:OFFSET_OUT_OF_RANGE")
    with pytest.raises(KafkaError, match=r"t-0 cannot be read at offset 0"):
        aborted_offsets(servers, "t")
    broker.faults.inject("Fetch", "error:NOT_LEADER_OR_FOLLOWER")
    assert aborted_offsets(servers, "t") == {(0, 0), (0, 1)}, "what may pass is waited for"


def test_a_report_is_one_file_with_its_plots(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="needs the extra `pipeline`")
    ids = ["0:0", "0:0", "7:7"]
    good, bad = judge(["0:0"], seen("0:0"), ["0:0"], set()), judge(["0:0"], seen(*ids), ids, set())
    offences = find_offences(["0:0"], seen(*ids), ids, set())
    course = Course([(0.0, 0), (1.0, 2)], [(0.5, "driver")], [0.6])
    sections = [
        Section("good <one>", "a", good, 1, {0: (1, 0)}),
        Section("bad", "b", bad, 2, {0: (2, 5)}, ["note"], course, offences=offences),
    ]
    totals = Totals({"a<1>": "AT"}, {"a<1>": 10.5}, {"good <one>": {"a<1>": 10.5}, "bad": {"a<1>": 21.0}})
    heading = Heading("A title", {"broker": "h:1", "transactional id": "etl<1>"})
    write_report(tmp_path / "deep" / "report.html", heading, sections, totals=totals)
    text = (tmp_path / "deep" / "report.html").read_text()
    assert text.count("<svg") == 4
    assert "<title>A title · broker h:1 · transactional id etl&lt;1&gt;</title>" in text
    assert "good &lt;one&gt;" in text
    assert "a&lt;1&gt;<td>AT<td>10.50<td class=good>10.50<td class=bad>21.00" in text
    assert "Exactly once</b><ul><li>every input record is visible, and visible once" in text
    assert "Not exactly once</b><ul><li>copies of records that are visible already: 1<li>visible records that" in text
    assert "<td>0:0<td>partition 0, offsets 0 and 1" in text
    assert "<td>7:7<td>partition 0, offset 2" in text
    assert "<script" not in text


def test_offences_name_the_records() -> None:
    ids = ["0:2", "0:0", "0:2", "x"]
    assert find_offences(["0:0", "0:1", "0:2"], seen(*ids), ids, {(0, 1)}) == [
        Offence("lost", "0:1"),
        Offence("duplicated", "0:2", ((0, 0), (0, 2))),
        Offence("unexpected", "x", ((0, 3),)),
        Offence("aborted_visible", "0:0", ((0, 1),)),
        Offence("out_of_order", "0:0", ((0, 1),)),
    ]


def test_kills_are_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "kills"
    path.write_text("1970-01-01T00:00:10+00:00 driver\n1970-01-01T00:00:12.5+00:00 the broker\n")
    assert read_kills(str(path)) == [(10.0, "driver"), (12.5, "the broker")]
    path.write_text("now driver\n")
    with pytest.raises(ConfigError, match="'now driver' is not a time in ISO 8601 and what was killed"):
        read_kills(str(path))
    with pytest.raises(ConfigError, match="--kills: nowhere cannot be read"):
        read_kills("nowhere")


def test_progress_is_plotted_from_the_first_record_or_kill() -> None:
    audit = Audit("t", judge([], [], [], set()), 3, {}, [], ["etl"], [5_000, 6_000, 9_000], [8_000])
    found = course(audit, [KillNote(4.0, "driver")])
    assert found is not None
    assert found.visible == [(0.0, 0), (1.0, 1), (2.0, 2), (5.0, 3), (5.0, 3)]
    assert (found.kills, found.aborts) == ([(0.0, "driver")], [4.0])
    assert course(audit._replace(written_ms=[]), []) is None


def test_who_wrote_a_topic_is_found_out(broker: Broker) -> None:
    servers = broker.bootstrap_servers
    write_transaction(servers, "t", range(1), commit=False)
    log = read_log(servers, "t")
    assert (log.aborted, len(log.aborts_ms)) == ({(0, 0)}, 1)
    assert transactional_ids(servers, log.producer_ids) == ["writer-t"]
    assert transactional_ids(servers, set()) == []
