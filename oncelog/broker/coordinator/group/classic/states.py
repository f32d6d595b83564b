"""The states of a classic group, and what each allows.

Empty                no members; there may be offsets
PreparingRebalance   waits until all members have sent JoinGroup, or their time is over
CompletingRebalance  the members of the next generation are known; waits for the leader's assignment
Stable               every member can have its assignment
Dead                 deleted; what DescribeGroups says of a group that does not exist
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from oncelog.protocol.errors import ErrorCode


class ClassicState(StrEnum):
    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


_EMPTY, _PREPARING, _COMPLETING, _STABLE, _DEAD = ClassicState

TRANSITIONS: Final[dict[ClassicState, frozenset[ClassicState]]] = {
    _EMPTY: frozenset({_PREPARING, _DEAD}),
    _PREPARING: frozenset({_COMPLETING, _EMPTY, _DEAD}),
    _COMPLETING: frozenset({_STABLE, _PREPARING, _DEAD}),
    _STABLE: frozenset({_PREPARING, _DEAD}),
    _DEAD: frozenset(),
}
"""What may follow a state. Replay is no transition: it puts a group into the state that its record says."""

CAN_REBALANCE: Final = frozenset(state for state, next_ in TRANSITIONS.items() if _PREPARING in next_)

HEARTBEAT_ANSWERS: Final[dict[ClassicState, ErrorCode]] = {
    _EMPTY: ErrorCode.UNKNOWN_MEMBER_ID,
    _PREPARING: ErrorCode.REBALANCE_IN_PROGRESS,
    # Members may send heartbeats as soon as they have the answer to JoinGroup.
    _COMPLETING: ErrorCode.NONE,
    _STABLE: ErrorCode.NONE,
    _DEAD: ErrorCode.COORDINATOR_NOT_AVAILABLE,
}

COMMIT_REFUSALS: Final[dict[ClassicState, ErrorCode]] = {
    _COMPLETING: ErrorCode.REBALANCE_IN_PROGRESS,
    _DEAD: ErrorCode.COORDINATOR_NOT_AVAILABLE,
}
"""Why even a member of the current generation may not commit offsets. In PreparingRebalance it may, since that is
when consumers give up their partitions."""
