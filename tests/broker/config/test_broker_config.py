from __future__ import annotations

import sys
from subprocess import run

import pytest

from oncelog.broker.config import BROKER_KEYS, TOPIC_KEYS, BrokerConfig, ConfigError, Setting
from oncelog.broker.config.broker_config import unknown_setting
from oncelog.broker.config.topic_keys import TOPIC_SYNONYMS


def config(**values: str) -> BrokerConfig:
    return BrokerConfig(Setting(name.replace("_", "."), value, "test") for name, value in values.items())


def test_every_default_is_valid() -> None:
    for key in (*BROKER_KEYS.values(), *TOPIC_KEYS.values()):
        if key.default is not None:
            key.parse(key.default)
        assert key.doc.endswith(".")
        assert key.doc.isascii()


def test_synonyms_are_keys() -> None:
    assert TOPIC_KEYS.keys() >= TOPIC_SYNONYMS.keys()
    for name, synonyms in TOPIC_SYNONYMS.items():
        for synonym, factor in synonyms:
            assert BROKER_KEYS[synonym].type in (TOPIC_KEYS[name].type, 3)
            assert factor >= 1


def test_typed_access() -> None:
    broker = config(log_cleaner_min_cleanable_ratio="0.25", compression_type="lz4")
    assert broker.int("num.partitions") == 1
    assert broker.bool("auto.create.topics.enable") is True
    assert broker.float("log.cleaner.min.cleanable.ratio") == 0.25
    assert broker.text("compression.type") == "lz4"
    assert broker.list("log.cleanup.policy") == ["delete"]
    assert broker.value("log.retention.ms") is None


def test_a_getter_of_the_wrong_type_is_our_mistake() -> None:
    with pytest.raises(AssertionError):
        config().int("compression.type")


def test_dynamic_settings_win_in_kafkas_order() -> None:
    static = config(max_connections="1")
    assert static.int("max.connections") == 1
    cluster = static.with_overrides({"max.connections": "2"}, {})
    assert cluster.int("max.connections") == 2
    assert cluster.with_overrides({"max.connections": "2"}, {"max.connections": "3"}).int("max.connections") == 3
    assert cluster.with_overrides({}, {}).int("max.connections") == 1


def test_bad_stored_settings_are_left_out_with_a_note() -> None:
    broker = config().with_overrides({"max.connections": "x", "who.knows": "1", "num.io.threads": "3"}, {})
    assert broker.int("max.connections") == 2**31 - 1
    assert broker.dynamic_default == {"num.io.threads": "3"}
    assert len(broker.notes) == 2
    assert all(note.startswith("ignored: ") for note in broker.notes)


@pytest.mark.parametrize(
    ("values", "name", "value"),
    [
        ({}, "retention.ms", 7 * 24 * 3600 * 1000),
        ({"log_retention_hours": "-1"}, "retention.ms", -1),
        ({"log_retention_hours": "2"}, "retention.ms", 2 * 3600 * 1000),
        ({"log_retention_hours": "2", "log_retention_minutes": "3"}, "retention.ms", 180_000),
        ({"log_retention_minutes": "3", "log_retention_ms": "4"}, "retention.ms", 4),
        ({"log_roll_hours": "1"}, "segment.ms", 3_600_000),
        ({"log_flush_scheduler_interval_ms": "9"}, "flush.ms", 9),
        ({"message_max_bytes": "77"}, "max.message.bytes", 77),
        ({"log_cleanup_policy": "compact"}, "cleanup.policy", ["compact"]),
        ({}, "remote.storage.enable", False),
    ],
)
def test_a_topic_takes_the_brokers_defaults(values: dict[str, str], name: str, value: object) -> None:
    broker = config(**values)
    assert broker.topic_value(name, {}) == value
    assert broker.topic_value("retention.ms", {"retention.ms": " 5 "}) == 5


def test_unknown_names_are_refused_with_the_closest_one() -> None:
    with pytest.raises(ConfigError, match=r'unknown setting "num.partition".*did you mean "num.partitions"'):
        config(num_partition="1")
    assert unknown_setting("zzz") == 'unknown setting "zzz"'


def test_the_import_is_light() -> None:
    code = """if True:
        import sys
        import oncelog.broker.config
        print(sys.modules.keys() & {'javaproperties', 'asyncio', 'dataclasses', 'difflib'})
    """
    done = run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
