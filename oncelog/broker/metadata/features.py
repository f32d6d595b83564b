"""The features that Apache Kafka 4.3 negotiates (KIP-584), with the levels that a fresh cluster finalizes.

Read from a running Kafka 4.3.0 by ApiVersions v4; a test compares the table with one. A feature at level 0
is off and is left out of the finalized ones. `metadata.version` 30 is Kafka's `4.3-IV0`; `kraft.version` is
of Kafka's own quorum and stays 0, as it does in a Kafka with static voters. Features that are not implemented
here (share groups, streams groups, eligible leader replicas) are not claimed.
"""

from __future__ import annotations

from oncelog.named_tuple import NamedTuple

METADATA_VERSION = "metadata.version"
TRANSACTION_VERSION = "transaction.version"
GROUP_VERSION = "group.version"


class Feature(NamedTuple):
    level_min: int
    level_max: int
    level_initial: int


FEATURES = {
    METADATA_VERSION: Feature(7, 30, 30),
    TRANSACTION_VERSION: Feature(0, 2, 2),
    GROUP_VERSION: Feature(0, 1, 1),
    "kraft.version": Feature(0, 1, 0),
}

INITIAL_LEVELS = {name: feature.level_initial for name, feature in FEATURES.items() if feature.level_initial}
