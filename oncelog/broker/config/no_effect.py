"""Settings of Apache Kafka 4.3's brokers that have no effect here.

They are accepted, with one line that says so, so that a server.properties can be brought along as it is.
Their types are known, so that nonsense is refused and passwords are never shown.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from oncelog.broker.config.values import BOOLEAN, CLASS, DOUBLE, INT, LIST, LONG, PASSWORD, SHORT, STRING

_INT = """
    add.partitions.to.txn.retry.backoff.max.ms add.partitions.to.txn.retry.backoff.ms
    alter.log.dirs.replication.quota.window.num alter.log.dirs.replication.quota.window.size.seconds
    background.threads broker.heartbeat.interval.ms broker.session.timeout.ms
    connection.failed.authentication.delay.ms controller.socket.timeout.ms
    delete.records.purgatory.purge.interval.requests fetch.purgatory.purge.interval.requests
    group.consumer.regex.refresh.interval.ms group.coordinator.append.linger.ms
    group.coordinator.background.threads group.coordinator.cached.buffer.max.bytes
    group.coordinator.threads group.share.assignment.interval.ms group.share.delivery.count.limit
    group.share.heartbeat.interval.ms group.share.initialize.retry.interval.ms
    group.share.max.assignment.interval.ms group.share.max.delivery.count.limit
    group.share.max.heartbeat.interval.ms group.share.max.partition.max.record.locks
    group.share.max.record.lock.duration.ms group.share.max.session.timeout.ms
    group.share.max.share.sessions group.share.max.size group.share.min.assignment.interval.ms
    group.share.min.delivery.count.limit group.share.min.heartbeat.interval.ms
    group.share.min.partition.max.record.locks group.share.min.record.lock.duration.ms
    group.share.min.session.timeout.ms group.share.partition.max.record.locks
    group.share.record.lock.duration.ms group.share.session.timeout.ms
    group.streams.assignment.interval.ms group.streams.heartbeat.interval.ms
    group.streams.initial.rebalance.delay.ms group.streams.max.assignment.interval.ms
    group.streams.max.heartbeat.interval.ms group.streams.max.session.timeout.ms group.streams.max.size
    group.streams.max.standby.replicas group.streams.min.assignment.interval.ms
    group.streams.min.heartbeat.interval.ms group.streams.min.session.timeout.ms
    group.streams.num.standby.replicas group.streams.session.timeout.ms
    initial.broker.registration.timeout.ms internal.metadata.log.segment.bytes
    internal.metadata.max.batch.size.in.bytes kafka.metrics.polling.interval.secs
    metadata.log.segment.bytes metadata.max.idle.interval.ms metrics.num.samples num.io.threads
    num.network.threads num.replica.alter.log.dirs.threads producer.purgatory.purge.interval.requests
    remote.fetch.max.wait.ms remote.log.manager.copier.thread.pool.size
    remote.log.manager.copy.quota.window.num remote.log.manager.copy.quota.window.size.seconds
    remote.log.manager.expiration.thread.pool.size remote.log.manager.fetch.quota.window.num
    remote.log.manager.fetch.quota.window.size.seconds remote.log.manager.follower.thread.pool.size
    remote.log.manager.thread.pool.size remote.log.metadata.custom.metadata.max.bytes
    remote.log.reader.max.pending.tasks remote.log.reader.threads replication.quota.window.num
    replication.quota.window.size.seconds sasl.login.connect.timeout.ms sasl.login.read.timeout.ms
    sasl.oauthbearer.assertion.claim.exp.seconds sasl.oauthbearer.assertion.claim.nbf.seconds
    sasl.oauthbearer.clock.skew.seconds sasl.server.max.receive.size share.coordinator.append.linger.ms
    share.coordinator.cached.buffer.max.bytes share.coordinator.cold.partition.snapshot.interval.ms
    share.coordinator.load.buffer.size share.coordinator.snapshot.update.records.per.snapshot
    share.coordinator.state.topic.compression.codec share.coordinator.state.topic.num.partitions
    share.coordinator.state.topic.prune.interval.ms share.coordinator.state.topic.segment.bytes
    share.coordinator.threads share.coordinator.write.timeout.ms
    share.fetch.purgatory.purge.interval.requests telemetry.max.bytes
"""

_CLASS = """
    alter.config.policy.class.name client.quota.callback.class create.topic.policy.class.name
    principal.builder.class sasl.client.callback.handler.class sasl.login.callback.handler.class
    sasl.login.class sasl.oauthbearer.jwt.retriever.class sasl.oauthbearer.jwt.validator.class
    sasl.server.callback.handler.class ssl.engine.factory.class
"""

_STRING = """
    authorizer.class.name group.share.persister.class.name metadata.log.dir metrics.recording.level
    remote.log.metadata.manager.class.name remote.log.metadata.manager.class.path
    remote.log.metadata.manager.impl.prefix remote.log.metadata.manager.listener.name
    remote.log.storage.manager.class.name remote.log.storage.manager.class.path
    remote.log.storage.manager.impl.prefix replica.selector.class sasl.kerberos.kinit.cmd
    sasl.kerberos.service.name sasl.mechanism.controller.protocol sasl.mechanism.inter.broker.protocol
    sasl.oauthbearer.assertion.algorithm sasl.oauthbearer.assertion.claim.aud
    sasl.oauthbearer.assertion.claim.iss sasl.oauthbearer.assertion.claim.sub
    sasl.oauthbearer.assertion.file sasl.oauthbearer.assertion.private.key.file
    sasl.oauthbearer.assertion.template.file sasl.oauthbearer.client.credentials.client.id
    sasl.oauthbearer.expected.issuer sasl.oauthbearer.jwks.endpoint.url sasl.oauthbearer.scope
    sasl.oauthbearer.scope.claim.name sasl.oauthbearer.sub.claim.name sasl.oauthbearer.token.endpoint.url
    security.inter.broker.protocol security.providers ssl.client.auth
    ssl.endpoint.identification.algorithm ssl.keymanager.algorithm ssl.keystore.location ssl.keystore.type
    ssl.principal.mapping.rules ssl.protocol ssl.provider ssl.secure.random.implementation
    ssl.trustmanager.algorithm ssl.truststore.location ssl.truststore.type super.users
"""

_BOOLEAN = """
    allow.everyone.if.no.acl.found auto.leader.rebalance.enable controlled.shutdown.enable
    follower.fetch.last.tiered.offset.enable remote.log.storage.system.enable
    sasl.oauthbearer.assertion.claim.jti.include ssl.allow.dn.changes ssl.allow.san.changes
    transaction.two.phase.commit.enable unstable.api.versions.enable unstable.feature.versions.enable
"""

_LIST = """
    config.providers cordoned.log.dirs early.start.listeners group.share.assignors kafka.metrics.reporters
    metric.reporters sasl.enabled.mechanisms sasl.kerberos.principal.to.local.rules
    sasl.oauthbearer.expected.audience ssl.cipher.suites ssl.enabled.protocols
"""

_LONG = """
    connections.max.reauth.ms controller.performance.always.log.threshold.ms
    controller.performance.sample.period.ms delegation.token.expiry.check.interval.ms
    delegation.token.expiry.time.ms delegation.token.max.lifetime.ms follower.replication.throttled.rate
    internal.metadata.delete.delay.millis leader.imbalance.check.interval.seconds
    leader.replication.throttled.rate log.dir.failure.timeout.ms
    metadata.log.max.record.bytes.between.snapshots metadata.log.max.snapshot.interval.ms
    metadata.log.segment.ms metadata.max.retention.bytes metadata.max.retention.ms
    metrics.sample.window.ms remote.list.offsets.request.timeout.ms
    remote.log.index.file.cache.total.size.bytes remote.log.index.file.cache.ttl.ms
    remote.log.manager.copy.max.bytes.per.second remote.log.manager.fetch.max.bytes.per.second
    remote.log.manager.task.interval.ms remote.log.manager.task.retry.backoff.max.ms
    remote.log.manager.task.retry.backoff.ms replica.alter.log.dirs.io.max.bytes.per.second
    sasl.kerberos.min.time.before.relogin sasl.login.retry.backoff.max.ms sasl.login.retry.backoff.ms
    sasl.oauthbearer.jwks.endpoint.refresh.ms sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms
    sasl.oauthbearer.jwks.endpoint.retry.backoff.ms server.max.startup.time.ms
    socket.connection.setup.timeout.max.ms socket.connection.setup.timeout.ms
    unclean.leader.election.interval.ms
"""

_PASSWORD = """
    delegation.token.secret.key sasl.jaas.config sasl.oauthbearer.assertion.private.key.passphrase
    sasl.oauthbearer.client.credentials.client.secret ssl.key.password ssl.keystore.certificate.chain
    ssl.keystore.key ssl.keystore.password ssl.truststore.certificates ssl.truststore.password
"""

_DOUBLE = """
    remote.log.manager.task.retry.jitter sasl.kerberos.ticket.renew.jitter
    sasl.kerberos.ticket.renew.window.factor sasl.login.refresh.window.factor
    sasl.login.refresh.window.jitter
"""

_SHORT = """
    sasl.login.refresh.buffer.seconds sasl.login.refresh.min.period.seconds
    share.coordinator.state.topic.min.isr share.coordinator.state.topic.replication.factor
"""

_DYNAMIC = """
    background.threads config.providers cordoned.log.dirs follower.fetch.last.tiered.offset.enable
    follower.replication.throttled.rate group.coordinator.cached.buffer.max.bytes
    group.share.assignment.interval.ms group.streams.assignment.interval.ms
    leader.replication.throttled.rate metric.reporters num.io.threads num.network.threads
    principal.builder.class remote.fetch.max.wait.ms remote.list.offsets.request.timeout.ms
    remote.log.index.file.cache.total.size.bytes remote.log.manager.copier.thread.pool.size
    remote.log.manager.copy.max.bytes.per.second remote.log.manager.expiration.thread.pool.size
    remote.log.manager.fetch.max.bytes.per.second remote.log.manager.follower.thread.pool.size
    remote.log.reader.threads replica.alter.log.dirs.io.max.bytes.per.second sasl.enabled.mechanisms
    sasl.jaas.config sasl.kerberos.kinit.cmd sasl.kerberos.min.time.before.relogin
    sasl.kerberos.principal.to.local.rules sasl.kerberos.service.name sasl.kerberos.ticket.renew.jitter
    sasl.kerberos.ticket.renew.window.factor sasl.login.refresh.buffer.seconds
    sasl.login.refresh.min.period.seconds sasl.login.refresh.window.factor
    sasl.login.refresh.window.jitter sasl.mechanism.inter.broker.protocol
    share.coordinator.cached.buffer.max.bytes ssl.cipher.suites ssl.client.auth ssl.enabled.protocols
    ssl.endpoint.identification.algorithm ssl.engine.factory.class ssl.key.password
    ssl.keymanager.algorithm ssl.keystore.certificate.chain ssl.keystore.key ssl.keystore.location
    ssl.keystore.password ssl.keystore.type ssl.protocol ssl.provider ssl.secure.random.implementation
    ssl.trustmanager.algorithm ssl.truststore.certificates ssl.truststore.location ssl.truststore.password
    ssl.truststore.type
"""

_DEFAULTS = """
    sasl.enabled.mechanisms=GSSAPI
    sasl.kerberos.kinit.cmd=/usr/bin/kinit
    sasl.kerberos.min.time.before.relogin=60000
    sasl.kerberos.principal.to.local.rules=DEFAULT
    sasl.kerberos.ticket.renew.jitter=0.05
    sasl.kerberos.ticket.renew.window.factor=0.8
    sasl.login.refresh.buffer.seconds=300
    sasl.login.refresh.min.period.seconds=60
    sasl.login.refresh.window.factor=0.8
    sasl.login.refresh.window.jitter=0.05
    sasl.login.retry.backoff.max.ms=10000
    sasl.login.retry.backoff.ms=100
    sasl.mechanism.controller.protocol=GSSAPI
    sasl.mechanism.inter.broker.protocol=GSSAPI
    sasl.oauthbearer.assertion.algorithm=RS256
    sasl.oauthbearer.assertion.claim.exp.seconds=300
    sasl.oauthbearer.assertion.claim.jti.include=false
    sasl.oauthbearer.assertion.claim.nbf.seconds=60
    sasl.oauthbearer.clock.skew.seconds=30
    sasl.oauthbearer.expected.audience=
    sasl.oauthbearer.jwks.endpoint.refresh.ms=3600000
    sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms=10000
    sasl.oauthbearer.jwks.endpoint.retry.backoff.ms=100
    sasl.oauthbearer.jwt.retriever.class=org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever
    sasl.oauthbearer.jwt.validator.class=org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator
    sasl.oauthbearer.scope.claim.name=scope
    sasl.oauthbearer.sub.claim.name=sub
    sasl.server.max.receive.size=524288
    ssl.allow.dn.changes=false
    ssl.allow.san.changes=false
    ssl.cipher.suites=
    ssl.client.auth=none
    ssl.enabled.protocols=TLSv1.2,TLSv1.3
    ssl.endpoint.identification.algorithm=https
    ssl.keymanager.algorithm=SunX509
    ssl.keystore.type=JKS
    ssl.principal.mapping.rules=DEFAULT
    ssl.protocol=TLSv1.3
    ssl.trustmanager.algorithm=PKIX
    ssl.truststore.type=JKS
"""
"""Of TLS and SASL, whose settings DescribeConfigs tells as Kafka does; those that are missing are not set there."""

_DESCRIBED_PREFIXES = ("sasl.", "ssl.")

_KRAFT = "process.roles"
_KRAFT_PREFIX = "controller.quorum."

_BEFORE_4 = """
    advertised.host.name advertised.port auto.include.jmx.reporter broker.id.generation.enable
    control.plane.listener.name controlled.shutdown.max.retries controlled.shutdown.retry.backoff.ms
    delegation.token.master.key eligible.leader.replicas.enable group.coordinator.new.enable host.name
    inter.broker.protocol.version leader.imbalance.per.broker.percentage log.message.downconversion.enable
    log.message.format.version log.message.timestamp.difference.max.ms offsets.commit.required.acks
    password.encoder.cipher.algorithm password.encoder.iterations password.encoder.key.length
    password.encoder.keyfactory.algorithm password.encoder.old.secret password.encoder.secret port
    quota.consumer.default quota.producer.default reserved.broker.max.id
"""

_OF_OUR_TABLES = """
    controller.quota.window.num controller.quota.window.size.seconds group.coordinator.rebalance.protocols
    log.cleaner.io.buffer.size log.cleaner.threads log.flush.start.offset.checkpoint.interval.ms
    log.local.retention.bytes log.local.retention.ms log.preallocate max.request.partition.size.limit
    num.recovery.threads.per.data.dir num.replica.fetchers offsets.commit.timeout.ms
    offsets.load.buffer.size offsets.topic.compression.codec queued.max.requests replica.fetch.backoff.ms
    replica.fetch.max.bytes replica.fetch.min.bytes replica.fetch.response.max.bytes
    replica.fetch.wait.max.ms replica.high.watermark.checkpoint.interval.ms replica.lag.time.max.ms
    replica.socket.receive.buffer.bytes replica.socket.timeout.ms request.timeout.ms
    socket.receive.buffer.bytes
    transaction.abort.timed.out.transaction.cleanup.interval.ms transaction.state.log.load.buffer.size
    unclean.leader.election.enable
"""

WITHOUT_EFFECT: Final = frozenset(_OF_OUR_TABLES.split())
"""Settings of our own tables, since DescribeConfigs tells them with Kafka's defaults, that nothing reads."""

_PLUGIN_PREFIXES = ("config.providers.", "rlmm.config.", "rsm.config.", "zookeeper.")
_LISTENER_PREFIX = "listener.name."


@cache
def _types() -> dict[str, int]:
    texts = {
        BOOLEAN: _BOOLEAN,
        STRING: _STRING,
        INT: _INT,
        SHORT: _SHORT,
        LONG: _LONG,
        DOUBLE: _DOUBLE,
        LIST: _LIST,
        CLASS: _CLASS,
        PASSWORD: _PASSWORD,
    }
    return {name: config_type for config_type, names in texts.items() for name in names.split()}


@cache
def _removed() -> frozenset[str]:
    return frozenset(_BEFORE_4.split())


@cache
def _dynamic() -> frozenset[str]:
    return frozenset(_DYNAMIC.split())


@cache
def _defaults() -> dict[str, str]:
    pairs = (line.partition("=") for line in _DEFAULTS.split())
    return {name: value for name, _, value in pairs}


@cache
def described() -> frozenset[str]:
    """The settings that DescribeConfigs tells even where nobody has set them."""
    return frozenset(name for name in _types() if name.startswith(_DESCRIBED_PREFIXES))


def default_of(name: str) -> str | None:
    """Kafka's default of a setting that is described."""
    return _defaults().get(name)


def names() -> frozenset[str]:
    """All names, for the search after the closest one."""
    return frozenset(_types()) | _removed() | {_KRAFT}


def type_of(name: str) -> int | None:
    """The type of a setting without effect; None for a name that Kafka does not know either."""
    if name == _KRAFT or name.startswith(_KRAFT_PREFIX):
        return STRING
    # Nobody can say what a plugin's setting holds, so it is treated as a secret.
    if name in _removed() or name.startswith(_PLUGIN_PREFIXES):
        return PASSWORD
    if name.startswith(_LISTENER_PREFIX):
        return _listener_type(name)
    return _types().get(name)


def is_dynamic(name: str) -> bool:
    """Whether Kafka lets the setting change while the broker runs."""
    return name in _dynamic() or name.startswith(_LISTENER_PREFIX)


def is_kraft(name: str) -> bool:
    """Whether the setting is about the controllers that Oncelog does not need."""
    return name == _KRAFT or name.startswith(_KRAFT_PREFIX)


def note(name: str) -> str:
    """The line for a person who sets it."""
    if name in _removed() or name.startswith("zookeeper."):
        return f"{name} has no effect: it belongs to Kafka before 4.0"
    if name == "authorizer.class.name":
        return f"{name} has no effect in this version: every client may do everything"
    return f"{name} has no effect in this version"


def _listener_type(name: str) -> int | None:
    """The type of `listener.name.<listener>.<key>` or `listener.name.<listener>.<mechanism>.<key>`."""
    parts = name.split(".", 3)
    if len(parts) < 4:
        return None
    base, inner = parts[3], parts[3].partition(".")[2]
    return _types().get(base) or _types().get(inner)
