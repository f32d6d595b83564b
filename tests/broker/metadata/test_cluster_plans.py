from __future__ import annotations

import pytest

from oncelog.broker.metadata.features import INITIAL_LEVELS
from oncelog.broker.metadata.image import EMPTY_IMAGE, BrokerImage
from oncelog.broker.metadata.keys import encode_producer_ids
from oncelog.broker.metadata.plans.cluster import (
    FeatureUpdate,
    ProducerIdBlock,
    UpgradeType,
    plan_allocate_producer_ids,
    plan_bootstrap,
    plan_register_broker,
    plan_unregister_broker,
    plan_update_features,
)
from oncelog.broker.metadata.store import Compare, Delete, Event, Put
from oncelog.protocol.errors import ErrorCode, KafkaError
from tests.broker.metadata.images import applied, cluster

UPGRADE, SAFE, UNSAFE = UpgradeType


class TestBootstrap:
    def test_a_new_cluster(self) -> None:
        image = applied(EMPTY_IMAGE, plan_bootstrap(EMPTY_IMAGE, cluster_id="first"))
        assert image.cluster_id == "first"
        assert image.features.levels == INITIAL_LEVELS
        assert image.features.epoch == image.revision

    def test_an_old_cluster_keeps_its_identity(self) -> None:
        image = applied(EMPTY_IMAGE, plan_bootstrap(EMPTY_IMAGE, cluster_id="first"))
        plan = plan_bootstrap(image, cluster_id="second")
        assert plan.results == "first"
        assert plan.writes == []


class TestRegisterBroker:
    def test_a_lease_is_passed_on(self) -> None:
        broker = BrokerImage(1, None, {"L": ("h", 1)})
        (write,) = plan_register_broker(EMPTY_IMAGE, broker, lease=7).writes
        assert isinstance(write, Put)
        assert write.lease == 7

    def test_a_new_lease_is_written_even_if_nothing_else_changed(self) -> None:
        image = cluster()
        assert plan_register_broker(image, image.brokers[1]).writes == ()
        assert len(plan_register_broker(image, image.brokers[1], lease=7).writes) == 1


class TestUnregisterBroker:
    def test_a_broker_that_is_gone(self) -> None:
        image = cluster(2)
        plan = plan_unregister_broker(image, 2, running_id=1)
        assert plan.writes == [Delete("/brokers/2")]
        assert applied(image, plan).brokers.keys() == {1}

    @pytest.mark.parametrize(
        ("broker_id", "code"),
        [
            (9, ErrorCode.BROKER_ID_NOT_REGISTERED),
            (-1, ErrorCode.BROKER_ID_NOT_REGISTERED),
            (1, ErrorCode.INVALID_REQUEST),
        ],
    )
    def test_one_that_is_unknown_and_one_that_runs(self, broker_id: int, code: ErrorCode) -> None:
        with pytest.raises(KafkaError) as caught:
            plan_unregister_broker(cluster(), broker_id, running_id=1)
        assert caught.value.code == code


class TestUpdateFeatures:
    def test_down_and_up(self) -> None:
        image = cluster()
        image = applied(image, plan_update_features(image, [FeatureUpdate("transaction.version", 1, SAFE)]))
        assert image.features.levels["transaction.version"] == 1
        assert image.features.epoch == image.revision
        image = applied(image, plan_update_features(image, [FeatureUpdate("transaction.version", 2)]))
        assert image.features.levels == INITIAL_LEVELS

    def test_level_0_is_off(self) -> None:
        image = cluster()
        image = applied(image, plan_update_features(image, [FeatureUpdate("group.version", 0, UNSAFE)]))
        assert "group.version" not in image.features.levels
        image = applied(image, plan_update_features(image, [FeatureUpdate("group.version", 1)]))
        assert image.features.levels["group.version"] == 1

    @pytest.mark.parametrize(
        "update",
        [
            FeatureUpdate("unknown", 1),
            FeatureUpdate("", 1),
            FeatureUpdate("transaction.version", 3),
            FeatureUpdate("transaction.version", -1),
            FeatureUpdate("transaction.version", 1),
            FeatureUpdate("kraft.version", 1, SAFE),
            FeatureUpdate("transaction.version", 1, 0),
            FeatureUpdate("transaction.version", 1, 9),
            FeatureUpdate("metadata.version", 6, SAFE),
            FeatureUpdate("metadata.version", 29, SAFE),
            FeatureUpdate("metadata.version", 29, UNSAFE),
            FeatureUpdate("metadata.version", 31),
        ],
        ids=str,
    )
    def test_one_wrong_update_refuses_all(self, update: FeatureUpdate) -> None:
        plan = plan_update_features(cluster(), [FeatureUpdate("group.version", 0, SAFE), update])
        assert plan.results.code == ErrorCode.INVALID_UPDATE_VERSION
        assert plan.results.message
        assert plan.writes == ()

    def test_what_changes_nothing_writes_nothing(self) -> None:
        image = cluster()
        for updates in ([], [FeatureUpdate("transaction.version", 2, SAFE)]):
            plan = plan_update_features(image, updates)
            assert plan.results.code == ErrorCode.NONE
            assert plan.writes == ()
        update = FeatureUpdate("transaction.version", 1, SAFE)
        assert plan_update_features(image, [update], validate_only=True).writes == ()


class TestProducerIds:
    def test_blocks_follow_each_other(self) -> None:
        image = EMPTY_IMAGE
        blocks = []
        for _ in range(3):
            plan = plan_allocate_producer_ids(image)
            assert plan.compares == [Compare("/producer_ids", image.revision_of("/producer_ids"))]
            blocks.append(plan.results)
            image = applied(image, plan)
        assert blocks == [ProducerIdBlock(n * 1000, 1000) for n in range(3)]

    def test_the_last_ids(self) -> None:
        image = EMPTY_IMAGE.apply([Event("/producer_ids", encode_producer_ids(2**63 - 1001), 1)])
        assert plan_allocate_producer_ids(image).results.first == 2**63 - 1001
        image = EMPTY_IMAGE.apply([Event("/producer_ids", encode_producer_ids(2**63 - 1000), 1)])
        with pytest.raises(KafkaError):
            plan_allocate_producer_ids(image)
