"""One file per API. A handler translates between the protocol and the parts that keep state; it keeps none.

This table is the registry: ApiVersions, dispatch and the documentation derive from it. A handler module has

    def handle(request, context) -> response, or something to await that gives it

and, where the response has no error code at its top, `error_reply(request, error, context)`.
"""

from __future__ import annotations

from oncelog.named_tuple import NamedTuple
from oncelog.protocol.api_keys import ApiKey


class Api(NamedTuple):
    key: ApiKey
    version_min: int
    version_max: int
    pipelined: bool = False
    """Whether the next request of a connection may start while one of these waits."""
    abandonable: bool = False
    """Whether one that waits is given up when its peer hangs up. Others change something and are carried through."""
    advertised_min: int | None = None
    """What ApiVersions says instead of `version_min`."""
    elements_max: int = 100_000
    """How many elements the arrays of a request may have, all together. Where a handler has to take them in one piece,
    fewer: it must not hold the event loop for long. A request with more closes the connection."""
    elements_at_once: int = 1000
    """How many of them the event loop decodes and handles in one piece; see `server/large_requests.py`. Fewer where one
    of them is much work: a partition that has to be opened, the settings of a broker, the members of a group."""


APIS: dict[int, Api] = {
    api.key: api
    for api in (
        # librdkafka takes a broker without Produce 0 for one without the new record format (KAFKA-18659).
        Api(ApiKey.PRODUCE, 3, 13, pipelined=True, advertised_min=0),
        Api(ApiKey.FETCH, 4, 18, abandonable=True, elements_max=20_000),
        Api(ApiKey.LIST_OFFSETS, 1, 11, elements_at_once=50),
        Api(ApiKey.METADATA, 0, 13),
        Api(ApiKey.OFFSET_COMMIT, 2, 10),
        Api(ApiKey.OFFSET_FETCH, 1, 10),
        Api(ApiKey.FIND_COORDINATOR, 0, 6),
        Api(ApiKey.JOIN_GROUP, 0, 9, elements_max=1000),
        Api(ApiKey.HEARTBEAT, 0, 4),
        Api(ApiKey.LEAVE_GROUP, 0, 5),
        Api(ApiKey.SYNC_GROUP, 0, 5, elements_max=10_000),
        Api(ApiKey.DESCRIBE_GROUPS, 0, 6, elements_at_once=20),
        Api(ApiKey.LIST_GROUPS, 0, 5, elements_max=1000),
        Api(ApiKey.SASL_HANDSHAKE, 0, 1),
        Api(ApiKey.API_VERSIONS, 0, 4),
        Api(ApiKey.CREATE_TOPICS, 2, 7, elements_at_once=50),
        Api(ApiKey.DELETE_TOPICS, 1, 6),
        Api(ApiKey.DELETE_RECORDS, 0, 2),
        Api(ApiKey.INIT_PRODUCER_ID, 0, 5),
        Api(ApiKey.OFFSET_FOR_LEADER_EPOCH, 2, 4, elements_at_once=50),
        Api(ApiKey.ADD_PARTITIONS_TO_TXN, 0, 5, elements_max=20_000),
        Api(ApiKey.ADD_OFFSETS_TO_TXN, 0, 4),
        Api(ApiKey.END_TXN, 0, 5),
        Api(ApiKey.WRITE_TXN_MARKERS, 1, 2, elements_at_once=50),
        Api(ApiKey.TXN_OFFSET_COMMIT, 0, 5),
        Api(ApiKey.DESCRIBE_ACLS, 1, 3),
        Api(ApiKey.CREATE_ACLS, 1, 3),
        Api(ApiKey.DELETE_ACLS, 1, 3),
        Api(ApiKey.DESCRIBE_CONFIGS, 1, 4, elements_max=30_000, elements_at_once=10),
        Api(ApiKey.ALTER_CONFIGS, 0, 2, elements_max=30_000),
        Api(ApiKey.ALTER_REPLICA_LOG_DIRS, 1, 2),
        Api(ApiKey.DESCRIBE_LOG_DIRS, 1, 5),
        Api(ApiKey.SASL_AUTHENTICATE, 0, 2),
        Api(ApiKey.CREATE_PARTITIONS, 0, 3),
        Api(ApiKey.CREATE_DELEGATION_TOKEN, 1, 3),
        Api(ApiKey.RENEW_DELEGATION_TOKEN, 1, 2),
        Api(ApiKey.EXPIRE_DELEGATION_TOKEN, 1, 2),
        Api(ApiKey.DESCRIBE_DELEGATION_TOKEN, 1, 3),
        Api(ApiKey.DELETE_GROUPS, 0, 2, elements_at_once=20),
        Api(ApiKey.ELECT_LEADERS, 0, 2),
        Api(ApiKey.INCREMENTAL_ALTER_CONFIGS, 0, 1, elements_max=30_000),
        Api(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, 1),
        Api(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, 0),
        Api(ApiKey.OFFSET_DELETE, 0, 0),
        Api(ApiKey.DESCRIBE_CLIENT_QUOTAS, 0, 1, elements_max=1000),
        Api(ApiKey.ALTER_CLIENT_QUOTAS, 0, 1),
        Api(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, 0, elements_max=20_000),
        Api(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, 0, elements_max=10_000),
        Api(ApiKey.DESCRIBE_QUORUM, 0, 2, elements_max=1000),
        Api(ApiKey.UPDATE_FEATURES, 0, 2, elements_max=1000),
        Api(ApiKey.DESCRIBE_CLUSTER, 0, 2),
        Api(ApiKey.DESCRIBE_PRODUCERS, 0, 0),
        Api(ApiKey.UNREGISTER_BROKER, 0, 0),
        Api(ApiKey.DESCRIBE_TRANSACTIONS, 0, 0, elements_at_once=20),
        Api(ApiKey.LIST_TRANSACTIONS, 0, 2, elements_max=20_000),
        Api(ApiKey.CONSUMER_GROUP_HEARTBEAT, 0, 1, elements_max=20_000),
        Api(ApiKey.CONSUMER_GROUP_DESCRIBE, 0, 1, elements_at_once=20),
        Api(ApiKey.LIST_CONFIG_RESOURCES, 0, 1, elements_max=1000),
        Api(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, 0, elements_max=20_000),
        Api(ApiKey.SHARE_GROUP_HEARTBEAT, 1, 1),
        Api(ApiKey.SHARE_GROUP_DESCRIBE, 1, 1),
        Api(ApiKey.SHARE_FETCH, 1, 2),
        Api(ApiKey.SHARE_ACKNOWLEDGE, 1, 2),
        Api(ApiKey.ADD_RAFT_VOTER, 0, 1),
        Api(ApiKey.REMOVE_RAFT_VOTER, 0, 0),
        Api(ApiKey.INITIALIZE_SHARE_GROUP_STATE, 0, 0),
        Api(ApiKey.READ_SHARE_GROUP_STATE, 0, 0),
        Api(ApiKey.WRITE_SHARE_GROUP_STATE, 0, 1),
        Api(ApiKey.DELETE_SHARE_GROUP_STATE, 0, 0),
        Api(ApiKey.READ_SHARE_GROUP_STATE_SUMMARY, 0, 1),
        Api(ApiKey.STREAMS_GROUP_HEARTBEAT, 0, 0),
        Api(ApiKey.STREAMS_GROUP_DESCRIBE, 0, 0),
        Api(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, 0, 1),
        Api(ApiKey.ALTER_SHARE_GROUP_OFFSETS, 0, 0),
        Api(ApiKey.DELETE_SHARE_GROUP_OFFSETS, 0, 0),
    )
}
