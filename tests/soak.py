"""What a test with a long form tells the person who waits for it: how far it is, and in the end what it has seen."""

from __future__ import annotations

import os
import time

import pytest

RESULTS = pytest.StashKey[list[str]]()
PROGRESS_INTERVAL_S = 15.0
IS_LONG = "ONCELOG_SOAK" in os.environ


class Soak:
    """Speaks only in the long form, past the capturing of output."""

    def __init__(self, request: pytest.FixtureRequest) -> None:
        self._name = request.node.name
        self._results = request.config.stash.setdefault(RESULTS, [])
        self._terminal = request.config.pluginmanager.getplugin("terminalreporter")
        self._capture = request.config.pluginmanager.getplugin("capturemanager")
        self._started = self._spoke = time.monotonic()

    def progress(self, text: str) -> None:
        """To be called often; says something now and then."""
        now = time.monotonic()
        if IS_LONG and now - self._spoke >= PROGRESS_INTERVAL_S:
            self._spoke = now
            with self._capture.global_and_fixture_disabled():
                self._terminal.ensure_newline()
                self._terminal.write_line(f"{self._elapsed(now)} {self._name}: {text}")

    def result(self, text: str) -> None:
        """A line of the summary."""
        if IS_LONG:
            self._results.append(f"{self._elapsed(time.monotonic())} {self._name}: {text}")

    def _elapsed(self, now: float) -> str:
        minutes, seconds = divmod(int(now - self._started), 60)
        return f"{minutes:3}:{seconds:02}"
