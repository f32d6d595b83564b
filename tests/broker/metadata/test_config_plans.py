from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from oncelog.broker.metadata.controller import (
    ConfigChange,
    ConfigEdit,
    ConfigOperation,
    NewTopic,
    Plan,
    ResourceType,
    plan_config_changes,
)
from oncelog.broker.metadata.store import Compare, Delete
from oncelog.protocol.errors import ErrorCode, KafkaError
from tests.broker.metadata.images import applied, cluster, with_topics

if TYPE_CHECKING:
    from collections.abc import Mapping

    from oncelog.broker.metadata.image import MetadataImage

SET, DELETE, APPEND, SUBTRACT = ConfigOperation
TOPIC, BROKER, METRICS, GROUP = ResourceType


class Schema:
    def check(self, configs: Mapping[str, str]) -> None:
        for key in configs:
            if key.startswith("bad"):
                raise KafkaError(ErrorCode.INVALID_CONFIG, f"Unknown config name: {key}")

    def is_list(self, key: str) -> bool:
        return key == "cleanup.policy"

    def default(self, key: str) -> str | None:
        return {"cleanup.policy": "delete"}.get(key)


SCHEMAS = dict.fromkeys(ResourceType, Schema())


def plan(image: MetadataImage, *changes: ConfigChange, **options: Any) -> Plan[Any]:
    return plan_config_changes(image, changes, schemas=SCHEMAS, broker_id=1, **options)


def codes(plan: Plan[Any]) -> list[int]:
    return [result.outcome.code for result in plan.results]


@pytest.fixture
def image() -> MetadataImage:
    return with_topics(cluster(2), NewTopic("t", 3, 2, configs=[("a", "1"), ("b", "2")]), NewTopic("u"))


class TestEdits:
    def test_set_and_delete(self, image: MetadataImage) -> None:
        edits = [ConfigEdit("a", SET, "9"), ConfigEdit("b", DELETE), ConfigEdit("c", SET, "")]
        done = plan(image, ConfigChange(TOPIC, "t", edits))
        assert done.compares == [Compare("/topics/t", image.revision_of("/topics/t"))]
        after = applied(image, done).topics["t"]
        assert after.configs == {"a": "9", "c": ""}
        assert after.partitions == image.topics["t"].partitions
        assert after.id == image.topics["t"].id

    def test_deleting_an_unknown_key_is_no_error(self, image: MetadataImage) -> None:
        done = plan(image, ConfigChange(TOPIC, "t", [ConfigEdit("bad", DELETE)]))
        assert codes(done) == [0]
        assert done.writes == []

    @pytest.mark.parametrize(
        ("steps", "value"),
        [
            ([(APPEND, "compact")], "delete,compact"),
            ([(APPEND, "delete")], "delete"),
            ([(APPEND, "compact"), (SUBTRACT, "delete")], "compact"),
            ([(SUBTRACT, "delete,compact")], ""),
            ([(SET, "x,y,z"), (SUBTRACT, "y,q"), (APPEND, "p,x")], "x,z,p"),
        ],
    )
    def test_lists(self, image: MetadataImage, steps: list[tuple[int, str]], value: str) -> None:
        for operation, item in steps:
            edit = ConfigEdit("cleanup.policy", operation, item)
            image = applied(image, plan(image, ConfigChange(TOPIC, "t", [edit])))
        assert image.topics["t"].configs["cleanup.policy"] == value

    def test_replacing_all(self, image: MetadataImage) -> None:
        change = ConfigChange(TOPIC, "t", [ConfigEdit("b", SET, "3")], replace_all=True)
        assert applied(image, plan(image, change)).topics["t"].configs == {"b": "3"}
        nothing = ConfigChange(TOPIC, "t", [], replace_all=True)
        assert applied(image, plan(image, nothing)).topics["t"].configs == {}

    def test_validate_only_writes_nothing(self, image: MetadataImage) -> None:
        changes = [
            ConfigChange(TOPIC, "t", [ConfigEdit("a", SET, "9")]),
            ConfigChange(TOPIC, "u", [ConfigEdit("bad", SET, "9")]),
        ]
        done = plan(image, *changes, validate_only=True)
        assert codes(done) == [0, 40]
        assert done.writes == []

    def test_a_topic_that_stays_the_same_is_not_written(self, image: MetadataImage) -> None:
        done = plan(image, ConfigChange(TOPIC, "t", [ConfigEdit("a", SET, "1")]))
        assert codes(done) == [0]
        assert done.writes == []

    def test_no_resources(self, image: MetadataImage) -> None:
        assert plan(image).results == []

    @pytest.mark.parametrize(
        ("change", "code"),
        [
            (ConfigChange(TOPIC, "absent", [ConfigEdit("a", SET, "1")]), 3),
            (ConfigChange(TOPIC, "absent", [ConfigEdit("bad", SET, "1")]), 40),
            (ConfigChange(TOPIC, "a/b", [ConfigEdit("a", SET, "1")]), 17),
            (ConfigChange(TOPIC, "", [ConfigEdit("a", SET, "1")]), 42),
            (ConfigChange(TOPIC, "t", [ConfigEdit("bad", SET, "1")]), 40),
            (ConfigChange(TOPIC, "t", [ConfigEdit("a", APPEND, "1")]), 40),
            (ConfigChange(TOPIC, "t", [ConfigEdit("a", SUBTRACT, "1")]), 40),
            (ConfigChange(TOPIC, "t", [ConfigEdit("a", SET, None)]), 42),
            (ConfigChange(TOPIC, "t", [ConfigEdit("a", SET, "1"), ConfigEdit("a", DELETE)]), 42),
            (ConfigChange(TOPIC, "t", [ConfigEdit("a", 9, "1")]), 42),
            (ConfigChange(8, "t", []), 42),
            (ConfigChange(0, "t", []), 42),
            (ConfigChange(BROKER, "1", [ConfigEdit("bad", SET, "1")]), 40),
            (ConfigChange(BROKER, "2", [ConfigEdit("a", SET, "1")]), 42),
            (ConfigChange(BROKER, "x", [ConfigEdit("a", SET, "1")]), 42),
            (ConfigChange(BROKER, "01", [ConfigEdit("a", SET, "1")]), 42),
            (ConfigChange(GROUP, "", [ConfigEdit("a", SET, "1")]), 42),
            (ConfigChange(GROUP, "g", [ConfigEdit("bad", SET, "1")]), 40),
            (ConfigChange(METRICS, "", [ConfigEdit("a", SET, "1")]), 42),
            (ConfigChange(METRICS, "m", [ConfigEdit("bad", SET, "1")]), 40),
        ],
        ids=str,
    )
    def test_refusals(self, image: MetadataImage, change: ConfigChange, code: int) -> None:
        good = ConfigChange(TOPIC, "u", [ConfigEdit("a", SET, "1")])
        done = plan(image, change, good)
        assert codes(done) == [code, 0]
        assert done.results[0].outcome.message
        assert [write.key for write in done.writes] == ["/topics/u"]

    def test_a_resource_twice_is_refused_twice(self, image: MetadataImage) -> None:
        change = ConfigChange(TOPIC, "t", [ConfigEdit("a", SET, "5")])
        done = plan(image, change, change)
        assert codes(done) == [42, 42]
        assert done.writes == []


class TestOtherResources:
    @pytest.mark.parametrize("name", ["", "1"])
    def test_broker_configs(self, image: MetadataImage, name: str) -> None:
        set_one = ConfigChange(BROKER, name, [ConfigEdit("x", SET, "1")])
        image = applied(image, plan(image, set_one))
        assert image.broker_configs == {name: {"x": "1"}}
        assert len(plan(image, set_one).writes) == 1, "setting again makes the broker reload"
        delete_it = ConfigChange(BROKER, name, [ConfigEdit("x", DELETE)])
        image = applied(image, plan(image, delete_it))
        assert image.broker_configs == {}
        assert plan(image, delete_it).writes == []

    def test_group_configs(self, image: MetadataImage) -> None:
        set_one = ConfigChange(GROUP, "g/1", [ConfigEdit("x", SET, "1")])
        image = applied(image, plan(image, set_one))
        assert image.group_configs == {"g/1": {"x": "1"}}
        assert plan(image, set_one).writes == []
        done = plan(image, ConfigChange(GROUP, "g/1", [], replace_all=True))
        assert done.writes == [Delete("/configs/group/g%2f1")]

    def test_client_metrics(self, image: MetadataImage) -> None:
        set_one = ConfigChange(METRICS, "every client/5 s", [ConfigEdit("x", SET, "1")])
        image = applied(image, plan(image, set_one))
        assert image.client_metrics == {"every client/5 s": {"x": "1"}}
        assert plan(image, set_one).writes == []
        done = plan(image, ConfigChange(METRICS, "every client/5 s", [ConfigEdit("x", DELETE)]))
        assert done.writes == [Delete("/configs/client-metrics/every%20client%2f5%20s")]
        assert applied(image, done).client_metrics == {}
