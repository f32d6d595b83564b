"""A standalone Spark cluster on this machine: a master and workers, each a process of its own, and spark-submit."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyspark

from oncelog.pipeline.archive import FAST_START, fast_start
from oncelog.pipeline.chaos import wait_until

SPARK_HOME = Path(pyspark.__file__).parent
WORKERS = 2
START_SECONDS_MAX = 120.0
_MASTER_URL = re.compile(r"Starting Spark master at (spark://\S+)")
HERE = {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_HOME": str(SPARK_HOME), "PYSPARK_PYTHON": sys.executable}


class StandaloneCluster:
    def __init__(self, directory: Path) -> None:
        self.master = ""
        self.worker_pids: list[int] = []
        self._directory = directory
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> StandaloneCluster:
        try:
            self._start_all()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _start_all(self) -> None:
        log = self._start("master", "org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", "0")
        self.master = _await(log, _MASTER_URL)[1]
        work = ["--host", "127.0.0.1", "--cores", "1", "--memory", "1g", "--work-dir", str(self._directory / "work")]
        worker = ("org.apache.spark.deploy.worker.Worker", *work, self.master)
        logs = [self._start(f"worker-{number}", *worker) for number in range(WORKERS)]
        self.worker_pids = [process.pid for process in self._processes[1:]]
        for log in logs:
            _await(log, re.compile("Successfully registered with master"))

    def __exit__(self, *_: object) -> None:
        for process in reversed(self._processes):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def _start(self, name: str, main: str, *arguments: str) -> Path:
        log = self._directory / f"{name}.log"
        command = [str(SPARK_HOME / "bin" / "spark-class"), main, "--webui-port", "0", *arguments]
        with log.open("wb") as out:
            environment = os.environ | HERE | {"SPARK_DAEMON_JAVA_OPTS": FAST_START}
            self._processes.append(
                subprocess.Popen(command, stdout=out, stderr=out, env=environment, start_new_session=True)
            )
        return log

    def submit_command(self, master: str, jars: Sequence[Path], program: Path, *arguments: str) -> list[str]:
        """All is on this machine: nobody has to fetch the jars from the driver."""
        path = os.pathsep.join(map(str, jars))
        settings = fast_start() | {
            "spark.ui.enabled": "false",
            "spark.sql.shuffle.partitions": "2",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.executor.memory": "512m",
            "spark.executor.cores": "1",
            # Kills that are meant for executors are no reason to give up the job.
            "spark.task.maxFailures": "100",
        }
        if path:
            settings |= {"spark.driver.extraClassPath": path, "spark.executor.extraClassPath": path}
        submit = shutil.which("spark-submit", path=str(SPARK_HOME / "bin"))
        assert submit is not None
        command = ["env", *(f"{key}={value}" for key, value in HERE.items()), submit, "--master", master]
        for key, value in settings.items():
            command += ["--conf", f"{key}={value}"]
        return [*command, str(program), *arguments]


def _await(log: Path, pattern: re.Pattern[str]) -> Any:
    found: list[Any] = []

    def look() -> bool:
        found[:] = [pattern.search(log.read_text(errors="replace"))]
        return found[0] is not None

    if not wait_until(look, START_SECONDS_MAX):
        raise TimeoutError(f"{log.name} does not say {pattern.pattern!r}:\n{log.read_text(errors='replace')[-3000:]}")
    return found[0]
