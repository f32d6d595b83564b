"""Reads all keys from the beginning, when all is healed, up to the last record of each.

    python -m tests.faults.final LIBRARY ADDRESS PROCESS DIRECTORY KEYS

The last record of key k has the value k; the operation that wrote it is part of the history as well.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tests.faults.readers import open_reader
from tests.faults.records import Notes, Polled, encode, entries

POLL_S = 1.0


def main(library: str, address: str, process: str, directory: str, keys: str) -> None:
    notes = Notes(Path(directory, f"{process}.jsonl"), int(process))
    reader = open_reader(library, address, f"final-{library}")
    notes.invoke("final", lib=library)
    unread = {encode(key, key).encode() for key in range(int(keys))}
    reader.assign(dict.fromkeys(range(int(keys)), 0))
    polled: Polled = []
    while unread:
        found = reader.poll(POLL_S)
        unread -= {content for _, _, content in found}
        polled += found
    notes.complete("ok", [entries(polled)])


if __name__ == "__main__":
    main(*sys.argv[1:])
    sys.stdout.flush()
    os._exit(0)
