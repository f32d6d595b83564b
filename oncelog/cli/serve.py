"""`oncelog serve`: run a broker until it is told to stop.

Imports are few and late, because people wait for this command: it answers its first request in a fifth of a
second.
"""

from __future__ import annotations

import errno
import gc
import logging
import os
import resource
import signal
import sys
from typing import TYPE_CHECKING

from oncelog.cli import serve_options
from oncelog.cli.streams import forget_stdout
from oncelog.protocol.addresses import host_and_port

if TYPE_CHECKING:
    from collections.abc import Callable

    from oncelog.broker.app import BrokerApp
    from oncelog.broker.config.broker_config import BrokerConfig
    from oncelog.cli.serve_options import ServeOptions

logger = logging.getLogger(__name__)

EXIT_FAILED = 1
EXIT_BAD_SETTING = 2


def run(argv: list[str], make_app: Callable[[BrokerConfig], BrokerApp] | None = None) -> int:
    """`make_app` is for tests, which run a broker that they can control."""
    # What is loaded for the start stays: there is no garbage to look for until then, nor ever among it.
    gc.disable()
    options = serve_options.parse(argv)
    logging.basicConfig(
        level=options.log_level.upper(),
        stream=sys.stderr,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
    from oncelog.broker.config.values import ConfigError

    try:
        config = _load(options)
        from oncelog.broker.app import BrokerApp

        app = (make_app or BrokerApp)(config)
    except ConfigError as error:
        return _fail(str(error), EXIT_BAD_SETTING)
    if logger.isEnabledFor(logging.DEBUG):
        _log_settings(config)
    for note in (*config.notes, *app.addresses.notes, *_missing_packages()):
        print(f"note: {note}", file=sys.stderr)

    from oncelog.broker.base import event_loop
    from oncelog.broker.log.disk import StorageError
    from oncelog.broker.metadata.store import MetadataStoreError
    from oncelog.broker.server.listener import ListenError

    _allow_many_files()
    try:
        return event_loop.run(_serve(app))
    except (StorageError, MetadataStoreError, ListenError) as error:
        return _fail(str(error), EXIT_FAILED)
    except OSError as error:
        return _fail(_explain(error, config.data_dir), EXIT_FAILED)


def _log_settings(config: BrokerConfig) -> None:
    from oncelog import __version__
    from oncelog.broker.metadata.metadata_log import shown

    logger.debug("oncelog %s on Python %s", __version__, sys.version.split()[0])
    for setting in config.static.values():
        logger.debug("setting %s=%s from %s", setting.name, shown(setting.name, setting.value), setting.source)


def _missing_packages() -> list[str]:
    from oncelog.broker.base.regex import MISSING_ENGINE, has_engine

    return [] if has_engine() else [MISSING_ENGINE]


def _load(options: ServeOptions) -> BrokerConfig:
    from oncelog.broker.config.broker_config import Setting
    from oncelog.broker.config.listeners import plaintext_listener
    from oncelog.broker.config.load import load_config

    flags = []
    if options.data is not None:
        flags.append(Setting("log.dirs", options.data, "--data"))
    if options.listen is not None:
        flags.append(Setting("listeners", plaintext_listener(options.listen, "--listen"), "--listen"))
    if options.advertise is not None:
        flags.append(
            Setting("advertised.listeners", plaintext_listener(options.advertise, "--advertise"), "--advertise")
        )
    return load_config(file=options.config, environment=os.environ, options=options.options, flags=flags)


async def _serve(app: BrokerApp) -> int:
    import asyncio

    from oncelog.broker.base.memory import LongCollections

    stopping = app.stopping
    loop = asyncio.get_running_loop()
    for signal_number in _signals_that_stop():
        loop.add_signal_handler(signal_number, stopping.set)
    await app.start()
    _write_address(app)
    try:
        _announce(app)
    except OSError as error:
        logger.warning("cannot write to stdout: %s", error.strerror or error)
        forget_stdout()
    LongCollections().start()
    gc.enable()
    await stopping.wait()
    await app.stop()
    return 0 if app.failure is None else 1


def _signals_that_stop() -> list[signal.Signals]:
    """SIGHUP comes when the terminal is closed. `nohup` ignores it, and then the broker does, too, as a JVM does."""
    ignores_hangup = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    return [signal.SIGINT, signal.SIGTERM, *([] if ignores_hangup else [signal.SIGHUP])]


def _announce(app: BrokerApp) -> None:
    bound = [host_and_port(*address) for address in app.bound.values()]
    told = [host_and_port(*address) for address in app.advertised.values()]
    print(f"oncelog is listening on {bound[0]}, data in {os.path.abspath(app.config.data_dir)}")
    if told[0] != bound[0]:
        print(f"  clients are told {told[0]}")
    for name, here, there in list(zip(app.bound, bound, told, strict=True))[1:]:
        print(f"  listener {name} is bound to {here}, clients are told {there}")
    print(f"connect with bootstrap.servers={told[0]}  (try: {_program()} topics list -b {told[0]})")
    # Testcontainers' modules and others wait for one of these phrases of Apache Kafka's log.
    node = f"[KafkaServer id={app.config.node_id}]"
    print(f"{node} started: Kafka Server started, Transitioning from RECOVERY to RUNNING", flush=True)


def _program() -> str:
    """What to type for another command. The virtualenv of `make run`, for one, is not on the PATH."""
    directory, name = os.path.split(sys.argv[0])
    if name.endswith(".py"):
        return f"{sys.executable} -m oncelog"
    return name if directory in os.get_exec_path() else sys.argv[0]


def _write_address(app: BrokerApp) -> None:
    """For a health check that does not know the settings: where clients on this machine reach the broker."""
    path = os.environ.get("ONCELOG_ADDRESS_FILE")
    if path:
        from oncelog.broker.config.listeners import local_host

        addresses = [host_and_port(local_host(host), port) for host, port in app.bound.values()]
        try:
            with open(path, "w") as file:
                file.write(",".join(addresses))
        except OSError as error:
            logger.warning("%s cannot be written: %s", path, error.strerror)


def _allow_many_files() -> None:
    """Connections and segments are files; the usual soft limit of 1024 is for programs that use select()."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _explain(error: OSError, directory: str) -> str:
    if error.errno == errno.ENOSPC:
        return f"the disk of {directory} is full: free some space, or choose another directory with --data"
    return f"{error.filename or directory}: {error.strerror or error}"


def _fail(line: str, code: int) -> int:
    print(f"oncelog: {line}", file=sys.stderr)
    return code
