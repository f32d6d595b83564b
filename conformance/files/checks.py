"""The checks, each a cell of the card's table of files."""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conformance.card_settings import APACHE_SETTINGS, SETTINGS
from conformance.cells import CellResult, compare_in_turn
from conformance.client import ClientError
from conformance.clients import open_client
from conformance.files.workload import CODECS, FATES, GROUP, Workload, create_topics, topics
from conformance.preparation import warm_up
from conformance.reference.kafka import ApacheKafka
from conformance.reference.tools import run_tool
from conformance.scenarios.groups import read
from oncelog.inspect.findings import Severity
from oncelog.inspect.verify import Totals
from oncelog.inspect.verify_data import find, verify
from oncelog.testing import Broker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from conformance.client import GroupConsumer, Json

NAME = "files"
FEW_PARTITIONS = {"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1"}
DUMPS = {
    "--print-data-log": [*topics()],
    "--offsets-decoder": ["__consumer_offsets"],
    "--transaction-log-decoder": ["__transaction_state"],
}
_NUMBERS = re.compile(r"(CreateTime|producerId|partitionLeaderEpoch|crc)(: )-?\d+")
_DECODED = re.compile(r" key: (\{.*\}) payload: (\{.*\})$", re.MULTILINE)
_VARYING = re.compile(r"[tT]imestamp|[pP]roducer(Id|Epoch)|^(memberId|leader|clientId|clientHost|topicId)$")
_COMPLAINTS = ("isvalid: false", "Exception", "Could not", "non-consecutive")


class Directories:
    """A directory of each broker with the same content, transactions left open, after a clean stop."""

    def __init__(self) -> None:
        self.apache = Path(tempfile.mkdtemp(prefix="conformance-apache-"))
        self.oncelog = Path(tempfile.mkdtemp(prefix="conformance-oncelog-"))

    def fill(self) -> None:
        with ApacheKafka(SETTINGS | APACHE_SETTINGS | FEW_PARTITIONS) as kafka:
            _fill(kafka.bootstrap_servers, kafka.stop)
            shutil.copytree(kafka.data_dir, self.apache, dirs_exist_ok=True)
        broker = Broker(SETTINGS | FEW_PARTITIONS, subprocess=True, data_dir=self.oncelog)
        with broker:
            _fill(broker.bootstrap_servers, broker.stop)

    def remove(self) -> None:
        for directory in (self.apache, self.oncelog):
            shutil.rmtree(directory, ignore_errors=True)


def _fill(address: str, stop: Callable[[], None]) -> None:
    warm_up(address)
    create_topics(address)
    with closing(Workload(address)) as workload:
        workload.write()
        workload.open_transactions()
        stop()


def run_checks(tell: Callable[[CellResult], None]) -> list[CellResult]:
    cells: list[CellResult] = []

    def add(label: str, theirs: Callable[[], Json], ours: Callable[[], Json]) -> None:
        cells.append(compare_in_turn(NAME, label, theirs, ours))
        tell(cells[-1])

    directories = Directories()
    try:
        directories.fill()
        for option, names in DUMPS.items():
            theirs = partial(dump, directories.apache, names, option)
            add(f"kafka-dump-log --deep-iteration {option}", theirs, partial(dump, directories.oncelog, names, option))
        add("verify-log over both", partial(find_errors, directories.apache), partial(find_errors, directories.oncelog))
    finally:
        directories.remove()
    add("Oncelog continues what Apache Kafka wrote", expected_after_exchange, kafka_then_oncelog)
    add("Apache Kafka continues what Oncelog wrote", expected_after_exchange, oncelog_then_kafka)
    return cells


def dump(directory: Path, names: list[str], option: str) -> Json:
    """What Kafka's tool says of logs, without what differs from one run of the same broker to the next."""
    segments = sorted(segment for name in names for segment in (directory / f"{name}-0").glob("*.log"))
    done = run_tool("kafka-dump-log", "--deep-iteration", option, "--files", ",".join(map(str, segments)))
    text = (done.stdout + done.stderr).replace(f"{directory}/", "")
    told: Json = (
        by_key(text) if option.endswith("-decoder") else [_NUMBERS.sub(r"\1\2N", line) for line in text.splitlines()]
    )
    complaints = [line for line in text.splitlines() if any(word in line for word in _COMPLAINTS)]
    return {"exit code": done.returncode, "complaints": list(complaints), "told": told}


def by_key(text: str) -> Json:
    """The decoded records of an internal topic, those of each key in their order: Kafka ends transactions behind its
    answers, so that the records of different keys have no order."""
    found: dict[str, Json] = {}
    for key, payload in _DECODED.findall(text):
        values = found.setdefault(key, [])
        assert isinstance(values, list)
        values.append(_meaning(json.loads(payload)))
    return found


def _meaning(payload: Any) -> Json:
    """Without times and ids."""
    if isinstance(payload, dict):
        return {name: _meaning(value) for name, value in payload.items() if not _VARYING.search(name)}
    if isinstance(payload, list):
        return sorted((_meaning(item) for item in payload), key=str)
    kept: Json = payload
    return kept


def find_errors(directory: Path) -> Json:
    totals = Totals()
    found = verify(directory, find(directory), totals, lambda _: None)
    errors: list[Json] = [finding.line() for finding in found if finding.severity is Severity.ERROR]
    return {"records were read": totals.records > 0, "sound": not errors, "errors": errors}


def expected_after_exchange() -> Json:
    """What is in the topics when the transactions that were open have ended under the second broker."""
    seen: dict[str, Json] = {f"files-{codec}": 5 for codec in CODECS}
    for fate in FATES:
        seen[f"files-{fate}"] = ["committed", *(["open"] if fate == "commit" else []), "behind"]
    seen["offset of the group"] = 4
    return seen


def kafka_then_oncelog() -> Json:
    with (
        tempfile.TemporaryDirectory(prefix="conformance-exchange-") as directory,
        ApacheKafka(SETTINGS | APACHE_SETTINGS | FEW_PARTITIONS) as kafka,
    ):
        address = kafka.bootstrap_servers
        warm_up(address)
        create_topics(address)
        with closing(Workload(address)) as workload:
            workload.write()
            workload.open_transactions()
            kafka.stop()
            shutil.copytree(kafka.data_dir, directory, dirs_exist_ok=True)
            return continue_with_oncelog(workload, Path(directory), address)


def oncelog_then_kafka() -> Json:
    """Topics of Kafka live in its controller's log, so it is given ours under topics that it has made before."""
    with (
        ApacheKafka(SETTINGS | APACHE_SETTINGS | FEW_PARTITIONS) as kafka,
        tempfile.TemporaryDirectory(prefix="conformance-exchange-") as directory,
    ):
        address = kafka.bootstrap_servers
        warm_up(address)
        create_topics(address)
        kafka.stop()
        with filled_by_oncelog(Path(directory), address) as workload:
            for topic in [*topics(), "__consumer_offsets", "__transaction_state"]:
                take_over(Path(directory, f"{topic}-0"), kafka.data_dir / f"{topic}-0")
            kafka.start()
            workload.end_transactions()
            return _look(address)


def continue_with_oncelog(workload: Workload, directory: Path, address: str) -> Json:
    with _oncelog_on(directory, address):
        workload.end_transactions()
        return _look(address)


@contextmanager
def filled_by_oncelog(directory: Path, address: str) -> Iterator[Workload]:
    """The workload outlives the broker, which has stopped when the block begins."""
    broker = _oncelog_on(directory, address)
    broker.start()
    try:
        warm_up(address)
        create_topics(address)
        workload = Workload(address)
    except BaseException:
        broker.stop()
        raise
    with closing(workload):
        try:
            workload.write()
            workload.open_transactions()
        finally:
            broker.stop()
        yield workload


def _oncelog_on(directory: Path, address: str) -> Broker:
    port = int(address.rpartition(":")[2])
    return Broker(SETTINGS | FEW_PARTITIONS, subprocess=True, data_dir=directory, port=port)


def take_over(source: Path, target: Path) -> None:
    """Everything but the id that the controller gave to the topic."""
    for path in target.iterdir():
        if path.name != "partition.metadata":
            path.unlink()
    for path in source.iterdir():
        if path.name != "partition.metadata":
            shutil.copy(path, target)


def _look(address: str) -> Json:
    seen: dict[str, Json] = {}
    with closing(open_client("confluent", address)) as client:
        for codec in CODECS:
            seen[f"files-{codec}"] = len(client.consume(f"files-{codec}", 5))
        for fate in FATES:
            topic = f"files-{fate}"
            with closing(client.open_producer(None)) as producer:
                producer.send(topic, b"behind")
            with closing(client.open_consumer(topic, f"look-{fate}", isolation="read_committed")) as consumer:
                seen[topic] = _read_up_to(consumer, "behind")
        with closing(client.open_consumer("files-none", GROUP)) as consumer:
            seen["offset of the group"] = consumer.committed(0)
    return seen


def _read_up_to(consumer: GroupConsumer, last: str) -> Json:
    values: list[Json] = []
    while last not in values:
        if len(values) > len(FATES):
            raise ClientError(f"too many records: {values}")
        records = read(consumer, 1)
        assert isinstance(records, list)
        values += [record["value"] for record in records if isinstance(record, dict)]
    return values
