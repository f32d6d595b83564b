"""The controller's decisions, all in one place to import from.

Each `plan_` function is pure: an image and a request in, a `Plan` out, with an outcome for every item of the
request. Time, randomness and configuration come in as arguments. `MetadataRuntime.change` carries plans out.
"""

from __future__ import annotations

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
from oncelog.broker.metadata.plans.configs import (
    ConfigChange,
    ConfigEdit,
    ConfigOperation,
    ConfigResult,
    ConfigSchema,
    ResourceType,
    plan_config_changes,
)
from oncelog.broker.metadata.plans.partitions import check_reassignment
from oncelog.broker.metadata.plans.plan import Outcome, Plan
from oncelog.broker.metadata.plans.quotas import QuotaChange, QuotaResult, plan_client_quotas
from oncelog.broker.metadata.plans.topics import (
    CreatedTopic,
    DeletedTopic,
    GrownTopic,
    MorePartitions,
    NewTopic,
    TopicLimits,
    TopicSelector,
    plan_create_partitions,
    plan_create_topics,
    plan_delete_topics,
)
from oncelog.broker.metadata.plans.users import CredentialChange, NewPassword, plan_scram_credentials

__all__ = [
    "ConfigChange",
    "ConfigEdit",
    "ConfigOperation",
    "ConfigResult",
    "ConfigSchema",
    "CreatedTopic",
    "CredentialChange",
    "DeletedTopic",
    "FeatureUpdate",
    "GrownTopic",
    "MorePartitions",
    "NewPassword",
    "NewTopic",
    "Outcome",
    "Plan",
    "ProducerIdBlock",
    "QuotaChange",
    "QuotaResult",
    "ResourceType",
    "TopicLimits",
    "TopicSelector",
    "UpgradeType",
    "check_reassignment",
    "plan_allocate_producer_ids",
    "plan_bootstrap",
    "plan_client_quotas",
    "plan_config_changes",
    "plan_create_partitions",
    "plan_create_topics",
    "plan_delete_topics",
    "plan_register_broker",
    "plan_scram_credentials",
    "plan_unregister_broker",
    "plan_update_features",
]
