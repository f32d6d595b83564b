"""Members with `group.protocol=consumer`, with the face of those in members.py."""

from __future__ import annotations

import json
import signal
import subprocess
from typing import Any

from members import Member, Partition

from conformance.reference.tools import TOOLS, java_command


class ConsumerProtocolMember(Member):
    """librdkafka; partitions come and go one by one."""

    def _run(self) -> None:
        from confluent_kafka import Consumer

        consumer = Consumer(
            {
                "bootstrap.servers": self._address,
                "group.id": self._group_id,
                "group.protocol": "consumer",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "reconnect.backoff.max.ms": 200,
                "log_level": 0,
                **{name.replace("_", "."): value for name, value in self._options.items()},
            }
        )

        def on_assign(_: Any, partitions: Any) -> None:
            self._was_assigned(self.assigned | _places(partitions))

        def on_revoke(_: Any, partitions: Any) -> None:
            self.assigned = self.assigned - _places(partitions)

        consumer.subscribe([self._topic], on_assign=on_assign, on_revoke=on_revoke, on_lost=on_revoke)
        try:
            while not self._stopping.is_set():
                message = consumer.poll(0.05)
                if message is not None and not message.error():
                    self.received.append((message.partition(), message.offset()))
                    consumer.commit(message, asynchronous=True)
        finally:
            consumer.close()


def _places(partitions: Any) -> set[Partition]:
    return {(partition.topic, partition.partition) for partition in partitions}


class JavaMember(Member):
    """Kafka's verifiable consumer, which tells of its partitions in lines of JSON."""

    _process: subprocess.Popen[str]

    def _run(self) -> None:
        command = java_command(
            TOOLS["kafka-verifiable-consumer"],
            *("--bootstrap-server", self._address, "--topic", self._topic, "--group-id", self._group_id),
            *("--group-protocol", "consumer", "--reset-policy", "earliest", "--enable-autocommit"),
        )
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as self._process:
            assert self._process.stdout is not None
            if self._stopping.is_set():
                self._process.kill()
            for line in self._process.stdout:
                self._tell(json.loads(line))

    def _tell(self, event: dict[str, Any]) -> None:
        places = {(place["topic"], place["partition"]) for place in event.get("partitions", ()) if "topic" in place}
        if event["name"] == "partitions_assigned":
            self._was_assigned(self.assigned | places)
        elif event["name"] == "partitions_revoked":
            self.assigned = self.assigned - places
        elif event["name"] == "records_consumed":
            self.received += [(place["partition"], place["maxOffset"]) for place in event["partitions"]]

    def stop(self) -> None:
        self._process.terminate()
        super().stop()

    def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        super().stop()
        self.assigned = set()

    def abandon(self) -> None:
        self._stopping.set()
        if hasattr(self, "_process"):
            self._process.kill()
        super().abandon()
