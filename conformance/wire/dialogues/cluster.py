"""Moves of replicas, of which a node alone has nowhere to move one to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from conformance.wire.good_requests import D
from conformance.wire.state import ABSENT, MIXED, PLAIN

if TYPE_CHECKING:
    from conformance.wire.talk import Talk


def reassignments(talk: Talk, version: int) -> None:
    api, listed = D.alter_partition_reassignments, D.list_partition_reassignments
    targets: dict[str, list[int] | None] = {
        "where it is": [1],
        "to a broker that is absent": [9],
        "to one that is there and one that is absent": [1, 9],
        "twice to the same": [1, 1],
        "to nobody": [],
        "cancel": None,
    }
    for label, replicas in targets.items():
        topics = [
            api.ReassignableTopic(
                name=name,
                partitions=[api.ReassignablePartition(partition_index=index, replicas=replicas) for index in indexes],
            )
            for name, indexes in ((PLAIN, (0, 1, 2)), ("__consumer_offsets", (0,)), (ABSENT, (0,)))
        ]
        for allowed in (True, False):
            request = api.AlterPartitionReassignmentsRequest(
                timeout_ms=5000, topics=topics, allow_replication_factor_change=allowed
            )
            talk.say(request, version, f"{label}, {'any' if allowed else 'the same'} number of replicas")
    named = listed.ListPartitionReassignmentsTopics(name=PLAIN, partition_indexes=[0, 1, 2])
    for label, asked in (("of a topic", [named]), ("of all", None)):
        request = listed.ListPartitionReassignmentsRequest(timeout_ms=5000, topics=asked)
        talk.say(request, 0, f"the moves {label}")


def log_dirs(talk: Talk, version: int) -> None:
    api = D.alter_replica_log_dirs
    told = talk.ask(D.describe_log_dirs.DescribeLogDirsRequest(topics=[]), 4)
    here: str = told.results[0].log_dir

    def move(label: str, *moves: tuple[str, str, list[int]]) -> None:
        dirs = [
            api.AlterReplicaLogDir(path=path, topics=[api.AlterReplicaLogDirTopic(name=name, partitions=indexes)])
            for path, name, indexes in moves
        ]
        talk.say(api.AlterReplicaLogDirsRequest(dirs=dirs), version, label)

    move("where they are", (here, PLAIN, [0, 1]), (here, MIXED, [0]))
    move("to a directory that is absent", ("/no/such/dir", PLAIN, [0, 1]))
    move("to a path that is not spelled the same", (here + "/", PLAIN, [0]))
    move("partitions that are absent", (here, PLAIN, [0, 2]), (here, ABSENT, [0]))
    move("absent ones to a directory that is absent", ("/no/such/dir", ABSENT, [0]))
    move("here and elsewhere", (here, PLAIN, [0]), ("/no/such/dir", PLAIN, [0]))
    move("elsewhere and here", ("/no/such/dir", PLAIN, [0]), (here, PLAIN, [0]))
    for length in (213, 214):
        move(f"a name of {length} characters", (here, "x" * length, [0]))
