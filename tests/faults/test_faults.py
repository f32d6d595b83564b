"""Mixed clients while the broker and they themselves are killed and paused: the history has no anomaly.

ONCELOG_SOAK_SECONDS sets how long, ONCELOG_SOAK_SEED which faults happen.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from conformance.reference.jars import missing
from oncelog.testing import Broker
from tests.faults.checker import check
from tests.faults.history import read_history
from tests.faults.run import Run
from tests.soak import Soak
from tests.transactions.reading import verify_data

SECONDS = float(os.environ.get("ONCELOG_SOAK_SECONDS", "15"))
SEED = int(os.environ.get("ONCELOG_SOAK_SEED", random.randrange(1_000_000)))

pytestmark = [pytest.mark.soak, pytest.mark.slow, pytest.mark.timeout(600 + 2 * SECONDS)]


def test_no_anomaly_under_kills_and_pauses(tmp_path: Path, soak: Soak) -> None:
    libraries = ["confluent", "kafka-python", "aiokafka", "idempotent"]
    if missing() is None:
        libraries.append("java")
    with Broker({"log.flush.on.ack": True}, subprocess=True) as broker:
        with closing(Run(broker, tmp_path, libraries, SECONDS, SEED)) as run:
            lines = run.carry_out(soak.progress)
        broker.stop()
        verify_data(broker.data_dir)
    (tmp_path / "history").write_text("\n".join(lines))
    history = read_history(lines)
    anomalies = check(history)
    said = f"seed {SEED}, history in {tmp_path}"
    assert anomalies == [], "\n".join([said, *map(str, anomalies[:20])])
    outcomes = Counter(f"{op.what} {op.outcome}" for op in history)
    sends = sum(len(op.sends) for op in history)
    reads = sum(len(op.polls) for op in history)
    assert outcomes["txn ok"] > 0, said
    soak.result(
        f"seed {SEED}, faults {dict(run.faults)}, clients that hung {dict(run.stuck)}:"
        f" {len(history)} operations {dict(outcomes)}, {sends} sends and {reads} reads, no anomaly"
    )
