"""Where metadata lives in the store, and its values as JSON.

    /cluster                       {"id": "<cluster id>"}
    /features                      {"<feature>": <finalized level>, ...}
    /producer_ids                  {"next": <first producer id that no block contains>}
    /brokers/<id>                  {"rack": <text or null>, "listeners": {"<name>": ["<host>", <port>]}}
    /topics/<name>                 {"id": "<hex>", "configs": {...},
                                    "replicas": [[<count>, [<broker>, ...]], ...]}
    /partitions/<topic id>/<n>     {"leader": <id>, "leader_epoch": <n>, "isr": [...],
                                    "partition_epoch": <n>}
    /configs/broker/<id>           {"<key>": "<value>", ...}; the id `default` is for all brokers
    /configs/group/<group>         the same
    /configs/client-metrics/<name> the same, of a subscription to metrics of clients
    /quotas/<type>=<name>,...      {"<key>": <number>, ...}; a type without a name is the default of that type
    /users/<name>                  {"<SCRAM mechanism>": {"iterations": <n>, "salt": "<hex>",
                                    "stored_key": "<hex>", "server_key": "<hex>"}, ...}

A topic is one key: its configs are part of it, so that creating, altering and deleting a topic is one
write, and nobody sees a topic without its configs. Replicas are run-length encoded, so 10,000 partitions on
one broker are one short value. A partition gets a key of its own once its state differs from the default
(its leader is the first replica, all replicas are in sync, both epochs are 0): a change of leader does not
rewrite the topic.
"""

from __future__ import annotations

import json
from enum import IntEnum
from itertools import groupby
from typing import TYPE_CHECKING, Any

from oncelog.named_tuple import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ROOT = "/"
CLUSTER = "/cluster"
FEATURES = "/features"
PRODUCER_IDS = "/producer_ids"
BROKERS = "/brokers/"
TOPICS = "/topics/"
PARTITIONS = "/partitions/"
BROKER_CONFIGS = "/configs/broker/"
GROUP_CONFIGS = "/configs/group/"
CLIENT_METRICS = "/configs/client-metrics/"
QUOTAS = "/quotas/"
USERS = "/users/"

# The wire names the resource of all brokers with an empty text, which would make a key that ends in a slash.
_ALL_BROKERS = "default"
_SAFE_IN_KEY = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")

Listeners = dict[str, tuple[str, int]]
# Pairs of an entity type (user, client-id, ip) and a name, None for the default; ordered by type.
QuotaEntity = tuple[tuple[str, str | None], ...]


class TopicRecord(NamedTuple):
    id: bytes
    replicas: Sequence[tuple[int, ...]]
    configs: Mapping[str, str]


class PartitionState(NamedTuple):
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    partition_epoch: int


class ScramMechanism(IntEnum):
    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def sasl_name(self) -> str:
        return self.name.replace("_", "-")


class ScramCredential(NamedTuple):
    """What a broker needs to verify a login, and to prove that it knows the user (RFC 5802)."""

    iterations: int
    salt: bytes
    stored_key: bytes
    server_key: bytes

    def __repr__(self) -> str:
        return f"ScramCredential(iterations={self.iterations})"


def broker_key(broker_id: int) -> str:
    return f"{BROKERS}{broker_id}"


def topic_key(name: str) -> str:
    return TOPICS + name


def partition_key(topic_id: bytes, partition: int) -> str:
    return f"{PARTITIONS}{topic_id.hex()}/{partition}"


def parse_partition_key(key: str) -> tuple[bytes, int]:
    topic_id, _, partition = key.removeprefix(PARTITIONS).partition("/")
    return bytes.fromhex(topic_id), int(partition)


def broker_configs_key(name: str) -> str:
    """The name is a broker's id in digits, or empty for the configs of all brokers."""
    return BROKER_CONFIGS + (name or _ALL_BROKERS)


def parse_broker_configs_key(key: str) -> str:
    name = key.removeprefix(BROKER_CONFIGS)
    return "" if name == _ALL_BROKERS else name


def group_configs_key(group_id: str) -> str:
    return GROUP_CONFIGS + _escape(group_id)


def parse_group_configs_key(key: str) -> str:
    return _unescape(key.removeprefix(GROUP_CONFIGS))


def client_metrics_key(name: str) -> str:
    return CLIENT_METRICS + _escape(name)


def parse_client_metrics_key(key: str) -> str:
    return _unescape(key.removeprefix(CLIENT_METRICS))


def quota_key(entity: QuotaEntity) -> str:
    parts = [kind if name is None else f"{kind}={_escape(name)}" for kind, name in entity]
    return QUOTAS + ",".join(parts)


def parse_quota_key(key: str) -> QuotaEntity:
    parts = [part.partition("=") for part in key.removeprefix(QUOTAS).split(",")]
    return tuple((kind, _unescape(name) if equals else None) for kind, equals, name in parts)


def user_key(name: str) -> str:
    return USERS + _escape(name)


def parse_user_key(key: str) -> str:
    return _unescape(key.removeprefix(USERS))


def encode_cluster(cluster_id: str) -> bytes:
    return _dump({"id": cluster_id})


def decode_cluster(value: bytes) -> str:
    return _text(_load(value)["id"])


def encode_levels(levels: Mapping[str, int]) -> bytes:
    return _dump(dict(levels))


def decode_levels(value: bytes) -> dict[str, int]:
    return {name: int(level) for name, level in _load(value).items()}


def encode_producer_ids(next_id: int) -> bytes:
    return _dump({"next": next_id})


def decode_producer_ids(value: bytes) -> int:
    return int(_load(value)["next"])


def encode_broker(rack: str | None, listeners: Mapping[str, tuple[str, int]]) -> bytes:
    return _dump({"rack": rack, "listeners": dict(listeners)})


def decode_broker(value: bytes) -> tuple[str | None, Listeners]:
    fields = _load(value)
    listeners = {name: (_text(host), int(port)) for name, (host, port) in fields["listeners"].items()}
    return None if fields["rack"] is None else _text(fields["rack"]), listeners


def encode_topic(record: TopicRecord) -> bytes:
    runs = [[len(list(run)), replicas] for replicas, run in groupby(record.replicas)]
    return _dump({"id": record.id.hex(), "replicas": runs, "configs": dict(record.configs)})


def decode_topic(value: bytes) -> TopicRecord:
    fields = _load(value)
    replicas: list[tuple[int, ...]] = []
    for count, brokers in fields["replicas"]:
        if not brokers:
            raise ValueError("a partition has no replicas")
        replicas += [tuple(brokers)] * count
    return TopicRecord(bytes.fromhex(fields["id"]), replicas, _texts(fields["configs"]))


def encode_partition(state: PartitionState) -> bytes:
    return _dump(state._asdict())


def decode_partition(value: bytes) -> PartitionState:
    fields = _load(value)
    return PartitionState(
        int(fields["leader"]),
        int(fields["leader_epoch"]),
        tuple(fields["isr"]),
        int(fields["partition_epoch"]),
    )


def encode_configs(configs: Mapping[str, str]) -> bytes:
    return _dump(dict(configs))


def decode_configs(value: bytes) -> dict[str, str]:
    return _texts(_load(value))


def encode_quotas(quotas: Mapping[str, float]) -> bytes:
    return _dump(dict(quotas))


def decode_quotas(value: bytes) -> dict[str, float]:
    return {key: float(quota) for key, quota in _load(value).items()}


def encode_user(credentials: Mapping[ScramMechanism, ScramCredential]) -> bytes:
    return _dump(
        {
            mechanism.sasl_name: {
                "iterations": iterations,
                "salt": salt.hex(),
                "stored_key": stored_key.hex(),
                "server_key": server_key.hex(),
            }
            for mechanism, (iterations, salt, stored_key, server_key) in credentials.items()
        }
    )


def decode_user(value: bytes) -> dict[ScramMechanism, ScramCredential]:
    return {
        ScramMechanism[name.replace("-", "_")]: ScramCredential(
            int(fields["iterations"]),
            bytes.fromhex(fields["salt"]),
            bytes.fromhex(fields["stored_key"]),
            bytes.fromhex(fields["server_key"]),
        )
        for name, fields in sorted(_load(value).items())
    }


def _dump(fields: Mapping[str, object]) -> bytes:
    return json.dumps(fields, separators=(",", ":"), sort_keys=True, allow_nan=False).encode()


def _load(value: bytes) -> dict[str, Any]:
    fields = json.loads(value)
    if not isinstance(fields, dict):
        raise ValueError("not an object")
    return fields


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("not a text")
    return value


def _texts(fields: Mapping[str, object]) -> dict[str, str]:
    return {key: _text(value) for key, value in fields.items()}


def _escape(name: str) -> str:
    return "".join(chr(byte) if byte in _SAFE_IN_KEY else f"%{byte:02x}" for byte in name.encode())


def _unescape(text: str) -> str:
    first, *rest = text.encode().split(b"%")
    return (first + b"".join(bytes.fromhex(part[:2].decode()) + part[2:] for part in rest)).decode()
