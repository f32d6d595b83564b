"""Settings of the server: identity, listeners, limits, topics, replication and quotas."""

from __future__ import annotations

from oncelog.broker.config.keys import CLUSTER_WIDE, READ_ONLY, ConfigKey
from oncelog.broker.config.values import (
    BOOLEAN,
    INT,
    LIST,
    LONG,
    STRING,
    OneOf,
    Range,
    at_least,
)

K = ConfigKey
INT_MAX = "2147483647"

IDENTITY = (
    K("node.id", INT, "1", at_least(0), READ_ONLY, "The number of this broker, unique in the cluster."),
    K(
        "broker.id",
        INT,
        None,
        at_least(-1),
        READ_ONLY,
        "The older name of node.id; if both are set they must agree.",
    ),
    K(
        "broker.rack",
        STRING,
        None,
        None,
        READ_ONLY,
        "Where the broker stands; replicas are spread over racks.",
    ),
)

LISTENERS = (
    K(
        "listeners",
        LIST,
        "PLAINTEXT://127.0.0.1:9092",
        None,
        READ_ONLY,
        "Addresses to listen on, NAME://host:port each; no host means every interface, port 0 a free port.",
    ),
    K(
        "advertised.listeners",
        LIST,
        None,
        None,
        READ_ONLY,
        "Addresses that clients are told to connect to, by listener name; else the listeners themselves.",
    ),
    K(
        "listener.security.protocol.map",
        STRING,
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        None,
        READ_ONLY,
        "The security protocol that each listener name stands for.",
    ),
    K(
        "inter.broker.listener.name",
        STRING,
        None,
        None,
        READ_ONLY,
        "The listener on which brokers talk to each other; the first one where not set.",
    ),
    K(
        "controller.listener.names",
        LIST,
        "",
        None,
        READ_ONLY,
        "Listeners that a KRaft controller would use; Oncelog needs none and does not open them.",
    ),
)

NETWORK = (
    K(
        "socket.request.max.bytes",
        INT,
        "104857600",
        at_least(1),
        READ_ONLY,
        "The largest request that is accepted; a connection that announces more is closed.",
    ),
    K(
        "socket.send.buffer.bytes",
        INT,
        "102400",
        None,
        READ_ONLY,
        "SO_SNDBUF of connections; -1 leaves it to the OS.",
    ),
    K(
        "socket.receive.buffer.bytes",
        INT,
        "102400",
        None,
        READ_ONLY,
        "SO_RCVBUF of connections, which is always left to the OS.",
    ),
    K(
        "socket.listen.backlog.size",
        INT,
        "50",
        at_least(1),
        READ_ONLY,
        "How many connections may wait to be accepted on a listener; 1024 at least.",
    ),
    K(
        "max.connections",
        INT,
        INT_MAX,
        at_least(0),
        CLUSTER_WIDE,
        "The number of connections that may be open at once; fewer where the limit of open files (ulimit -n) is low.",
    ),
    K(
        "max.connections.per.ip",
        INT,
        INT_MAX,
        at_least(0),
        CLUSTER_WIDE,
        "The number of connections that one address may hold open.",
    ),
    K(
        "max.connections.per.ip.overrides",
        STRING,
        "",
        None,
        CLUSTER_WIDE,
        "Exceptions from max.connections.per.ip, as host:count pairs separated by commas.",
    ),
    K(
        "max.connection.creation.rate",
        INT,
        INT_MAX,
        at_least(0),
        CLUSTER_WIDE,
        "The number of connections per second that may be opened.",
    ),
    K(
        "connections.max.idle.ms",
        LONG,
        "600000",
        None,
        READ_ONLY,
        "A connection on which nothing happens for this long is closed.",
    ),
    K(
        "queued.max.requests",
        INT,
        "500",
        at_least(1),
        READ_ONLY,
        "The number of requests that may be in work before reading from connections stops.",
    ),
    K(
        "queued.max.request.bytes",
        LONG,
        "-1",
        None,
        READ_ONLY,
        "The bytes of requests that may be in memory before reading stops; -1 sets no limit.",
    ),
    K("request.timeout.ms", INT, "30000", None, READ_ONLY, "How long an internal request may take."),
)

TOPICS = (
    K(
        "num.partitions",
        INT,
        "1",
        at_least(1),
        READ_ONLY,
        "Partitions of a topic that is created without a count.",
    ),
    K(
        "default.replication.factor",
        INT,
        "1",
        None,
        READ_ONLY,
        "Replicas of a topic that is created without a replication factor.",
    ),
    K(
        "auto.create.topics.enable",
        BOOLEAN,
        "true",
        None,
        READ_ONLY,
        "Whether a client that asks for an unknown topic creates it.",
    ),
    K("delete.topic.enable", BOOLEAN, "true", None, READ_ONLY, "Whether topics may be deleted."),
    K(
        "message.max.bytes",
        INT,
        "1048588",
        at_least(0),
        CLUSTER_WIDE,
        "The largest record batch that a topic accepts, after compression.",
    ),
    K(
        "min.insync.replicas",
        INT,
        "1",
        at_least(1),
        CLUSTER_WIDE,
        "In-sync replicas that must hold a record before acks=all is answered.",
    ),
    K(
        "unclean.leader.election.enable",
        BOOLEAN,
        "false",
        None,
        CLUSTER_WIDE,
        "Whether a replica that lags may become the leader when no other is left; records are lost.",
    ),
    K(
        "compression.type",
        STRING,
        "producer",
        OneOf("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        CLUSTER_WIDE,
        "The codec in which batches are stored; producer keeps them as they came.",
    ),
    K(
        "compression.gzip.level",
        INT,
        "-1",
        Range(1, 9, -1),
        CLUSTER_WIDE,
        "How hard gzip tries; -1 is its default.",
    ),
    K("compression.lz4.level", INT, "9", Range(1, 17), CLUSTER_WIDE, "How hard lz4 tries."),
    K("compression.zstd.level", INT, "3", Range(-131072, 22), CLUSTER_WIDE, "How hard zstd tries."),
)

FETCH = (
    K(
        "fetch.max.bytes",
        INT,
        "57671680",
        at_least(1024),
        READ_ONLY,
        "The largest Fetch answer, except that a first batch larger than it is sent whole.",
    ),
    K(
        "max.incremental.fetch.session.cache.slots",
        INT,
        "1000",
        at_least(0),
        READ_ONLY,
        "The number of incremental fetch sessions that are remembered.",
    ),
    K(
        "max.request.partition.size.limit",
        INT,
        "2000",
        at_least(1),
        READ_ONLY,
        "The number of partitions in one DescribeTopicPartitions answer.",
    ),
)

REPLICATION = (
    K(
        "replica.lag.time.max.ms",
        LONG,
        "30000",
        None,
        READ_ONLY,
        "A follower that has not caught up for this long leaves the in-sync set.",
    ),
    K("replica.fetch.min.bytes", INT, "1", None, READ_ONLY, "Bytes that a follower's Fetch waits for."),
    K(
        "replica.fetch.wait.max.ms",
        INT,
        "500",
        None,
        READ_ONLY,
        "How long a follower's Fetch waits for data.",
    ),
    K(
        "replica.fetch.max.bytes",
        INT,
        "1048576",
        at_least(0),
        READ_ONLY,
        "Bytes per partition in a follower's Fetch.",
    ),
    K(
        "replica.fetch.response.max.bytes",
        INT,
        "10485760",
        at_least(0),
        READ_ONLY,
        "Bytes that a follower asks for in one Fetch.",
    ),
    K(
        "replica.fetch.backoff.ms",
        INT,
        "1000",
        at_least(0),
        READ_ONLY,
        "A follower's pause after a failed Fetch.",
    ),
    K("replica.socket.timeout.ms", INT, "30000", None, READ_ONLY, "How long a follower waits for an answer."),
    K(
        "replica.socket.receive.buffer.bytes",
        INT,
        "65536",
        None,
        READ_ONLY,
        "SO_RCVBUF of a follower's connections.",
    ),
    K(
        "replica.high.watermark.checkpoint.interval.ms",
        LONG,
        "5000",
        None,
        READ_ONLY,
        "How often the high watermarks are written to disk.",
    ),
    K(
        "num.replica.fetchers",
        INT,
        "1",
        at_least(1),
        CLUSTER_WIDE,
        "Connections to each leader that is followed.",
    ),
)

QUOTAS = (
    K(
        "quota.window.num",
        INT,
        "11",
        at_least(1),
        READ_ONLY,
        "Samples over which a client's byte rate is averaged.",
    ),
    K("quota.window.size.seconds", INT, "1", at_least(1), READ_ONLY, "The length of one such sample."),
    K(
        "controller.quota.window.num",
        INT,
        "11",
        at_least(1),
        READ_ONLY,
        "Samples of the rate of topic changes.",
    ),
    K(
        "controller.quota.window.size.seconds",
        INT,
        "1",
        at_least(1),
        READ_ONLY,
        "The length of one such sample.",
    ),
)

SERVER_KEYS = (*IDENTITY, *LISTENERS, *NETWORK, *TOPICS, *FETCH, *REPLICATION, *QUOTAS)
