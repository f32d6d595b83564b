"""`oncelog serve` for a test: `python -m oncelog.testing.server DESCRIPTOR temporary|kept OPTIONS...`

The test controls the broker through the socket with that descriptor. A broker whose test has ended without stopping
it removes its directory, if that is a temporary one.
"""

from __future__ import annotations

import shutil
import socket
import sys
from typing import TYPE_CHECKING

from oncelog.cli import serve
from oncelog.testing.controlled import ControlledApp

if TYPE_CHECKING:
    from oncelog.broker.config.broker_config import BrokerConfig


def main(argv: list[str]) -> int:
    descriptor, directory_kind, *options = argv
    control = socket.socket(fileno=int(descriptor))
    made: list[ControlledApp] = []

    def make_app(config: BrokerConfig) -> ControlledApp:
        made.append(ControlledApp(config, control))
        return made[0]

    code = serve.run(options, make_app)
    if directory_kind == "temporary" and made and made[0].is_orphaned:
        shutil.rmtree(made[0].config.data_dir, ignore_errors=True)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
