"""Whose data directory it is: `meta.properties` and the metadata must agree with each other and with the settings.

A broker that starts under another id than before would lead none of its partitions: clients would wait for a leader
that does not exist. So it does not start, like Apache Kafka.
"""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

from oncelog.broker.base.ids import random_uuid
from oncelog.broker.log.checkpoints import META_PROPERTIES
from oncelog.broker.log.disk import StorageError
from oncelog.named_tuple import NamedTuple
from oncelog.protocol.primitives import uuid_text

if TYPE_CHECKING:
    from oncelog.broker.log.log_manager import LogManager
    from oncelog.broker.metadata.image import MetadataImage

logger = logging.getLogger(__name__)

_VERSIONS = ("0", "1")
"""Before KRaft, in version 0, the node id was named broker.id, and the oldest brokers wrote no cluster id."""
_ANOTHER_DIRECTORY = "choose another directory with --data (log.dirs)"


class Identity(NamedTuple):
    node_id: int
    cluster_id: str = ""


def read_identity(logs: LogManager) -> Identity | None:
    """What `meta.properties` says; None if the file is absent. StorageError if it is not valid."""
    properties = logs.meta_properties()
    if properties is None:
        return None
    path = os.path.join(logs.root, META_PROPERTIES)
    version = properties.get("version", "0")
    if version not in _VERSIONS:
        raise StorageError(f"{path} has version {version!r}; this version of Oncelog knows {' and '.join(_VERSIONS)}")
    key = "node.id" if version == "1" else "broker.id"
    node_id = properties.get(key, "")
    if not node_id.isdecimal():
        raise StorageError(f"{path} is damaged: it has no valid {key}; restore the file, or {_ANOTHER_DIRECTORY}")
    cluster_id = properties.get("cluster.id", "")
    if not cluster_id and version == "1":
        raise StorageError(f"{path} is damaged: it has no cluster.id; restore the file, or {_ANOTHER_DIRECTORY}")
    return Identity(int(node_id), cluster_id)


def check_node_id(stored: Identity | None, node_id: int, logs: LogManager) -> None:
    """The broker must have the id under which it wrote the directory."""
    if stored is not None and stored.node_id != node_id:
        raise _other_node(stored.node_id, node_id, os.path.join(logs.root, META_PROPERTIES))


def check_metadata(image: MetadataImage, stored: Identity | None, node_id: int, path: str) -> None:
    """The metadata file at `path` must be of the same node and cluster as the directory that it lies in."""
    stored_cluster_id = stored.cluster_id if stored else ""
    if stored_cluster_id and image.cluster_id and stored_cluster_id != image.cluster_id:
        raise StorageError(
            f"{path} is of cluster {image.cluster_id!r}, but {META_PROPERTIES} beside it is of cluster "
            f"{stored_cluster_id!r}; put back the file that belongs to the directory, or {_ANOTHER_DIRECTORY}"
        )
    if image.brokers and node_id not in image.brokers:
        raise _other_node(min(image.brokers), node_id, path)


def note_cluster_id(wanted: str, image: MetadataImage) -> None:
    """A cluster keeps its id. Images of Kafka ignore another one as well, since compose files always set it."""
    if wanted and wanted != image.cluster_id:
        logger.warning("the cluster id %s is ignored: the data belongs to cluster %s", wanted, image.cluster_id)


def write_identity(logs: LogManager, identity: Identity) -> None:
    kept = logs.meta_properties() or {}
    kept.pop("broker.id", None)
    logs.write_meta_properties(
        {
            "directory.id": uuid_text(random_uuid()),
            **kept,
            "version": "1",
            "node.id": str(identity.node_id),
            "cluster.id": identity.cluster_id,
        }
    )


def _other_node(stored: int, node_id: int, path: str) -> StorageError:
    return StorageError(
        f"Stored node id {stored} doesn't match node.id {node_id} in {path}: set node.id={stored} to go on with this "
        f"data, or {_ANOTHER_DIRECTORY}"
    )
