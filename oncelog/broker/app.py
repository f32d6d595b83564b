"""The composition root: the only place that names the concrete store, disk and clock; and the broker's life.

start   directory locked · metadata loaded · logs recovered · sockets bound · broker registered · serving
stop    no new requests · everything durable · clean-shutdown mark · lock released
"""

from __future__ import annotations

import asyncio
import logging
import os
import resource
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from oncelog.broker.admin.topics import create_initial_topics
from oncelog.broker.base.clock import Clock
from oncelog.broker.base.loop_watchdog import LoopWatch
from oncelog.broker.base.turns import Turns
from oncelog.broker.config.checks import connection_overrides
from oncelog.broker.config.listeners import Listeners, resolve_listeners
from oncelog.broker.coordinator.run.group_host import forget_missing_topics, make_group_host
from oncelog.broker.coordinator.run.txn_host import make_transaction_host
from oncelog.broker.log.disk import Disk, StorageError
from oncelog.broker.log.log_manager import LogManager
from oncelog.broker.log.page_cache import ensure_on_device
from oncelog.broker.maintenance.housekeeping import Housekeeping
from oncelog.broker.metadata.bootstrap import adopt_logs
from oncelog.broker.metadata.identity import (
    Identity,
    check_metadata,
    check_node_id,
    note_cluster_id,
    read_identity,
    write_identity,
)
from oncelog.broker.metadata.metadata_log import note_changes
from oncelog.broker.metadata.producer_ids import ProducerIdAllocator
from oncelog.broker.metadata.registration import register_broker
from oncelog.broker.metadata.runtime import MetadataRuntime
from oncelog.broker.metadata.stores.sqlite import SqliteStore
from oncelog.broker.metadata.strays import report_ignored, set_strays_aside
from oncelog.broker.replica.flusher import Flusher
from oncelog.broker.replica.manager import ReplicaManager
from oncelog.broker.requests.fetch_sessions import FetchSessions
from oncelog.broker.requests.quotas import Quotas
from oncelog.broker.requests.services import Services
from oncelog.broker.server.dispatch import Dispatcher
from oncelog.broker.server.limits import ConnectionLimits, FrameMemory
from oncelog.broker.server.listener import Listener
from oncelog.broker.txn.markers import MarkerWriter

if TYPE_CHECKING:
    from oncelog.broker.config.broker_config import BrokerConfig
    from oncelog.broker.config.listeners import ListenerAddress
    from oncelog.broker.log.log_config import LogConfig
    from oncelog.broker.metadata.image import MetadataImage
    from oncelog.broker.server.interceptors import Interceptor

logger = logging.getLogger(__name__)

METADATA_FILE = "metadata.sqlite"
_CLOSING_THREADS_MAX = 16
_OPEN_FILES_MAX = 4096
"""Of logs at the same time; more would make closing one slower than opening it again."""


class BrokerApp:
    def __init__(self, config: BrokerConfig, *, disk: Disk | None = None, clock: Clock | None = None) -> None:
        self.config = config
        self.addresses: Listeners = resolve_listeners(config)
        self._disk = disk or Disk()
        self.loop_watch = LoopWatch()
        self._clock = clock or Clock(self.loop_watch.served_seconds)
        self._flusher = Flusher()
        self._housekeeping: Housekeeping | None = None
        self._connection_limits = ConnectionLimits(*_connection_settings(config))
        self._listeners: list[Listener] = []
        self._services: Services | None = None
        self._store: SqliteStore | None = None
        self._logs: LogManager | None = None
        self._markers: MarkerWriter | None = None
        self._loading: list[asyncio.Task[None]] = []
        self.stopping = asyncio.Event()
        """Set when the broker has to stop by itself."""
        self.failure: str | None = None
        """Why it had to."""
        self._closed_cleanly = False

    @property
    def services(self) -> Services:
        assert self._services is not None, "the broker is not started"
        return self._services

    @property
    def bound(self) -> dict[str, tuple[str, int]]:
        """Where each listener listens, with the port that the system chose where it was to choose."""
        return {
            listener.name: (address.host or "0.0.0.0", listener.port)
            for listener, address in zip(self._listeners, self.addresses.bound, strict=True)
        }

    @property
    def advertised(self) -> dict[str, tuple[str, int]]:
        """What clients of each listener are told to connect to."""
        return {
            listener.name: self._with_port(self.addresses.advertised[listener.name], listener)
            for listener in self._listeners
        }

    async def start(self) -> None:
        try:
            await self._start()
        except BaseException:
            # What cannot start often cannot stop either; the reason why it did not start is what counts.
            await self._stop_all()
            raise

    async def stop(self) -> None:
        started = self._clock.monotonic()
        failures = await self._stop_all()
        for failure in failures:
            known = isinstance(failure, StorageError | OSError)
            logger.error("while stopping: %s", failure, exc_info=None if known else failure)
        if failures:
            raise failures[0]
        duration_ms = (self._clock.monotonic() - started) * 1000
        if self._closed_cleanly:
            logger.info("stopped in %d ms; everything is on disk", duration_ms)
        else:
            logger.warning("stopped in %d ms; the next start has to recover the logs", duration_ms)

    async def _stop_all(self) -> list[Exception]:
        """Every step is taken even if one before it failed, since the last ones make the data durable."""
        steps = (
            self._stop_listeners,
            self._stop_cpu_workers,
            self._stop_housekeeping,
            self._stop_coordinators,
            self._stop_flusher,
            self._stop_services,
            self._close_logs,
            self._close_store,
            self._stop_loop_watch,
        )
        failures = []
        for step in steps:
            try:
                await step()
            except Exception as failure:
                failures.append(failure)
        return failures

    async def _stop_listeners(self) -> None:
        for listener in self._listeners:
            await listener.stop()

    async def _stop_cpu_workers(self) -> None:
        if self._services:
            self._services.cpu_workers.close()

    async def _stop_housekeeping(self) -> None:
        if self._housekeeping:
            await self._housekeeping.stop()

    async def _stop_coordinators(self) -> None:
        for loading in self._loading:
            loading.cancel()
        if self._markers is not None:
            self._markers.close()
            self.services.groups.close()
            self.services.transactions.close()

    async def _stop_flusher(self) -> None:
        await self._flusher.drain()
        self._flusher.close()

    async def _stop_services(self) -> None:
        if self._services:
            self._services.partitions.close()
            self._services.checkpoints.close()
            await self._services.producer_ids.close()
            await self._services.metadata.close()

    async def _close_logs(self) -> None:
        """Most of the time goes into syncs, which the system carries out for several logs together."""
        if self._logs:
            with ThreadPoolExecutor(_CLOSING_THREADS_MAX, "oncelog-close") as threads:
                self._closed_cleanly = self._logs.close(map_logs=threads.map)

    async def _close_store(self) -> None:
        if self._store:
            await self._store.close()

    async def _stop_loop_watch(self) -> None:
        self.loop_watch.stop()

    async def _start(self) -> None:
        config = self.config
        self._logs = logs = LogManager.open(
            config.data_dir, self._log_config, self._disk, open_files_max=self._share_files()
        )
        identity = read_identity(logs)
        check_node_id(identity, config.node_id, logs)
        metadata_path = os.path.join(logs.root, METADATA_FILE)
        _ensure_on_device(metadata_path)
        self._store = await SqliteStore.open(metadata_path)
        metadata = MetadataRuntime(self._store, self._metadata_lost)
        turns = Turns()
        self._services = services = Services(
            broker_id=config.node_id,
            config=config,
            clock=self._clock,
            metadata=metadata,
            logs=logs,
            partitions=ReplicaManager(
                config.node_id,
                logs,
                self._flusher,
                config.bool("log.flush.on.ack"),
                self._in_sync_count_min,
                self._clock,
                turns,
            ),
            producer_ids=ProducerIdAllocator(metadata),
            fetch_sessions=FetchSessions(config.int("max.incremental.fetch.session.cache.slots")),
            quotas=Quotas(self._clock, config.int("quota.window.num"), config.int("quota.window.size.seconds")),
            turns=turns,
        )
        metadata.subscribe(self._image_changed)
        await metadata.start()
        check_metadata(metadata.image, identity, config.node_id, metadata_path)
        await adopt_logs(metadata, logs, identity, config, self._clock)
        if identity is None or not identity.cluster_id:
            write_identity(logs, Identity(config.node_id, metadata.image.cluster_id))
        note_cluster_id(config.initial.cluster_id, metadata.image)
        metadata.subscribe(note_changes)
        self._recover(logs)
        set_strays_aside(metadata.image, logs)
        report_ignored(metadata.image, logs)
        self.loop_watch.start()
        self._start_coordinators(services)
        self.dispatcher = dispatcher = Dispatcher(services, self.interceptors())
        memory = FrameMemory(config.int("queued.max.request.bytes"))
        for address in self.addresses.bound:
            listener = Listener(
                address,
                dispatcher,
                self._connection_limits,
                memory,
                idle_ms_max=config.int("connections.max.idle.ms"),
                backlog=config.int("socket.listen.backlog.size"),
                send_buffer_bytes=config.int("socket.send.buffer.bytes"),
                monotonic=self.loop_watch.served_until_tick,
            )
            self._listeners.append(listener)
            await listener.bind()
        await register_broker(metadata, config, self.advertised)
        await create_initial_topics(services)
        for listener in self._listeners:
            await listener.serve()
        self._housekeeping = Housekeeping(services, self._flusher)
        self._housekeeping.start()

    def _share_files(self) -> int:
        """How many files of logs may be open: half of what the system allows. Connections leave them alone."""
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft == resource.RLIM_INFINITY:
            return _OPEN_FILES_MAX
        log_files_max = min(soft // 2, _OPEN_FILES_MAX)
        self._connection_limits.leave_descriptors(soft, log_files_max)
        return log_files_max

    def interceptors(self) -> list[Interceptor]:
        """What stands before the handlers, the outermost first."""
        return []

    def _start_coordinators(self, services: Services) -> None:
        """They read their logs in the background; who asks one meanwhile waits for it."""
        self._markers = MarkerWriter(services)
        services.groups = make_group_host(services)
        services.transactions = make_transaction_host(services, self._markers)
        for host in (services.groups, services.transactions):
            services.metadata.subscribe(host.image_changed)
        loop = asyncio.get_running_loop()
        self._loading.append(loop.create_task(self._load_groups(services)))
        self._loading.append(loop.create_task(services.transactions.load_all(services.logs.has_records)))

    async def _load_groups(self, services: Services) -> None:
        await services.groups.load_all(services.logs.has_records)
        await forget_missing_topics(services)

    def _recover(self, logs: LogManager) -> None:
        """After a crash, bring every log back to what is certain before anyone is served."""
        count = 0
        started = self._clock.monotonic()
        for topic, index in logs.recover(self._clock.wall_ms()):
            count += 1
            failure = logs.failures.get((topic, index))
            if failure:
                logger.error("%s-%d stays offline: %s", topic, index, failure)
        if count:
            duration_ms = (self._clock.monotonic() - started) * 1000
            logger.info("there was no clean stop: %d partitions were checked in %d ms", count, duration_ms)

    def _log_config(self, topic: str) -> LogConfig:
        # Loaded with the first log.
        from oncelog.broker.config.topic_log_config import log_config

        services = self.services
        image = services.metadata.image.topic(topic)
        if image is None:
            return log_config({}, services.config).replace(gaps_anywhere=True)
        return log_config(image.configs, services.config)

    def _in_sync_count_min(self, configs: Mapping[str, str]) -> int:
        count = self.services.config.topic_value("min.insync.replicas", configs)
        assert isinstance(count, int)
        return count

    def _metadata_lost(self, error: Exception) -> None:
        """Without metadata nothing can be decided: stop rather than serve what may be stale."""
        self.failure = f"it lost its metadata: {error}"
        logger.critical("the broker stops: %s", self.failure)
        self.stopping.set()

    def _image_changed(self, old: MetadataImage, new: MetadataImage) -> None:
        services = self.services
        configs_changed = old.broker_configs is not new.broker_configs
        if configs_changed:
            services.config = self.config.with_overrides(
                new.broker_configs.get("", {}), new.broker_configs.get(str(services.broker_id), {})
            )
            for note in services.config.notes:
                logger.warning("%s", note)
        services.partitions.image_changed(old, new)
        if configs_changed:
            self._connection_limits.update(*_connection_settings(services.config))
            services.partitions.broker_config_changed()
        if old.quotas is not new.quotas:
            services.quotas.update(new.quotas)

    def _with_port(self, address: ListenerAddress, listener: Listener) -> tuple[str, int]:
        return address.host, address.port or listener.port


def _ensure_on_device(metadata_path: str) -> None:
    """What SQLite is about to read must not be lost after it has built on it. It uses the disk by itself."""
    disk = Disk()
    try:
        for suffix in ("", "-wal", "-journal"):
            if disk.exists(metadata_path + suffix):
                ensure_on_device(disk, metadata_path + suffix)
    except OSError as error:
        raise StorageError(f"metadata store {metadata_path} cannot be made durable: {error}") from error


def _connection_settings(config: BrokerConfig) -> tuple[int, int, dict[str, int], int]:
    return (
        config.int("max.connections"),
        config.int("max.connections.per.ip"),
        connection_overrides(config),
        config.int("max.connection.creation.rate"),
    )
