"""The timers of consumer groups, by member.

session    a member was heard of
rebalance  a member has to give partitions up
join       a member of the classic protocol was told to join again
sync       a member of the classic protocol has joined and has to fetch its assignment
downgrade  a group that has become a classic one has to rebalance
"""

from __future__ import annotations

from oncelog.broker.coordinator.effects import Effects

SESSION_TIMER = "consumer-session"
REBALANCE_TIMER = "consumer-rebalance"
JOIN_TIMER = "consumer-join"
SYNC_TIMER = "consumer-sync"
DOWNGRADE_TIMER = "consumer-downgrade"

Key = tuple[str, ...]


def session_timer(group_id: str, member_id: str) -> Key:
    return SESSION_TIMER, group_id, member_id


def rebalance_timer(group_id: str, member_id: str) -> Key:
    return REBALANCE_TIMER, group_id, member_id


def join_timer(group_id: str, member_id: str) -> Key:
    return JOIN_TIMER, group_id, member_id


def sync_timer(group_id: str, member_id: str) -> Key:
    return SYNC_TIMER, group_id, member_id


def downgrade_timer(group_id: str) -> Key:
    return DOWNGRADE_TIMER, group_id


def cancel_timers(group_id: str, member_id: str, effects: Effects) -> None:
    for kind in (SESSION_TIMER, REBALANCE_TIMER, JOIN_TIMER, SYNC_TIMER):
        effects.cancel_timer((kind, group_id, member_id))
