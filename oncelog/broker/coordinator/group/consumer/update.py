"""A member of a consumer group comes or changes: what follows for the group's epoch, its target, and the member.

    subscription changed, or topics did    the group's epoch grows
    target older than the group's epoch    a new target, unless the last one is very recent
    member not where its target is         the member goes on towards it

The same for members of either protocol. Nothing changes here: records say what is to change.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import cached_property

from oncelog.broker.base.regex import check_regex, matching
from oncelog.broker.coordinator.effects import Effects
from oncelog.broker.coordinator.group.assignors import NOTHING, Assignment
from oncelog.broker.coordinator.group.consumer.assignment import compute_targets
from oncelog.broker.coordinator.group.consumer.consumer_group import ConsumerGroup, ResolvedRegex, subscribed_topics
from oncelog.broker.coordinator.group.consumer.member import ConsumerMember, MemberState, PartitionList
from oncelog.broker.coordinator.group.consumer.reconciliation import Reconciliation
from oncelog.broker.coordinator.group.consumer.records import (
    current_record,
    group_record,
    member_record,
    partition_metadata_tombstone,
    regex_record,
    regex_tombstone,
    target_epoch_record,
    target_record,
)
from oncelog.broker.coordinator.group.consumer.settings import ConsumerSettings
from oncelog.broker.coordinator.group.consumer.timers import rebalance_timer
from oncelog.broker.coordinator.group.consumer.topics import TopicMetadata
from oncelog.named_tuple import NamedTuple

logger = logging.getLogger(__name__)

REGEX_REFRESH_INTERVAL_MS_MIN = 10_000
"""Topics can change often, and looking at all of them for every heartbeat would be a lot of work."""


class _Target(NamedTuple):
    epoch: int
    assignment: Assignment


class MemberUpdate:
    def __init__(
        self,
        group: ConsumerGroup,
        before: ConsumerMember,
        member: ConsumerMember,
        topics: TopicMetadata,
        settings: ConsumerSettings,
        effects: Effects,
    ) -> None:
        """`before` is what the group, or a record already among the effects, has of the member."""
        self._group = group
        self._before = before
        self._member = member
        self._topics = topics
        self._settings = settings
        self._effects = effects
        self._regexes: Mapping[str, ResolvedRegex] = group.regexes
        self._regexes_refreshed = False
        self._group_epoch = group.group_epoch
        self._subscription_changed = (
            member.topic_names != before.topic_names or member.topic_regex != before.topic_regex
        )

    @cached_property
    def _members(self) -> dict[str, ConsumerMember]:
        return self._group.members_with(self._member)

    def run(self, reported: Sequence[PartitionList] | None) -> ConsumerMember:
        """The member as it is afterwards. `reported` are the partitions that it says it has."""
        self._update_group()
        member = self._reconcile(self._next_target(), reported)
        self._note_seen()
        return member

    def _note_seen(self) -> None:
        """Not before all records are written, since the log may refuse them."""
        self._group.topics_seen = self._topics.image.topics
        if self._regexes_refreshed:
            self._group.regexes_checked_ms = self._effects.now.steady_ms
            self._group.regexes_checked_topics = self._topics.image.topics

    def _update_group(self) -> None:
        """Write the member, and a new epoch if its subscription or the topics have changed."""
        if self._member != self._before:
            self._effects.write(member_record(self._group.group_id, self._member))
        matches_changed = self._update_regexes()
        is_topic_news = self._group.topics_seen is not self._topics.image.topics
        if self._subscription_changed or matches_changed or is_topic_news:
            self._maybe_begin_epoch(certain=self._subscription_changed or matches_changed)

    def _maybe_begin_epoch(self, *, certain: bool) -> None:
        group = self._group
        names = frozenset[str]().union(*(subscribed_topics(member, self._regexes) for member in self._members.values()))
        metadata_hash = self._topics.hash_of(names)
        if certain or metadata_hash != group.metadata_hash:
            self._group_epoch = group.group_epoch + 1
            self._effects.write(group_record(group.group_id, self._group_epoch, metadata_hash))
        if group.has_partition_metadata:
            self._effects.write(partition_metadata_tombstone(group.group_id))

    # -- regular expressions ---------------------------------------------------------------------------------

    def _update_regexes(self) -> bool:
        """Whether an expression matches other topics than before."""
        group, former, regex = self._group, self._before.topic_regex, self._member.topic_regex
        regexes = dict(group.regexes)
        if former and former != regex and group.regex_count(former) <= 1:
            self._effects.write(regex_tombstone(group.group_id, former))
            regexes.pop(former, None)
        changed = self._resolve(regex, regexes) if regex and regex not in regexes else False
        if regexes and self._is_refresh_due():
            for known in list(regexes):
                changed |= self._resolve(known, regexes)
            self._regexes_refreshed = True
        self._regexes = regexes
        return changed

    def _is_refresh_due(self) -> bool:
        checked_ms = self._group.regexes_checked_ms
        if checked_ms is None:
            return True
        is_recent = self._effects.now.steady_ms < checked_ms + REGEX_REFRESH_INTERVAL_MS_MIN
        return not is_recent and self._group.regexes_checked_topics is not self._topics.image.topics

    def _resolve(self, regex: str, regexes: dict[str, ResolvedRegex]) -> bool:
        known = regexes.get(regex)
        if known is None:
            check_regex(regex)
        image, wall_ms = self._topics.image, self._effects.now.wall_ms
        found = matching(regex, image.topics)
        if known is not None and known.topics == found:
            return False
        regexes[regex] = ResolvedRegex(found, image.revision, wall_ms)
        self._effects.write(regex_record(self._group.group_id, regex, found, image.revision, wall_ms))
        return True

    # -- the target ------------------------------------------------------------------------------------------

    def _next_target(self) -> _Target:
        group = self._group
        if group.assignment_epoch >= self._group_epoch or not self._may_assign():
            return self._last_target()
        targets = compute_targets(group, self._members, self._regexes, self._topics, self._settings.default_assignor)
        for member_id in self._members:
            assignment = targets.get(member_id, NOTHING)
            if assignment != group.targets.get(member_id):
                self._effects.write(target_record(group.group_id, member_id, assignment))
        self._effects.write(target_epoch_record(group.group_id, self._group_epoch, self._effects.now.wall_ms))
        logger.info(
            "group %s: epoch %d has a target for %d members", group.group_id, self._group_epoch, len(self._members)
        )
        return _Target(self._group_epoch, targets.get(self._member.member_id, NOTHING))

    def _last_target(self) -> _Target:
        return _Target(self._group.assignment_epoch, self._group.target_of(self._member))

    def _may_assign(self) -> bool:
        """Members that come one after the other within a moment share an assignment (KIP-1263)."""
        assigned_ms = self._group.assigned_ms
        return assigned_ms is None or self._effects.now.steady_ms - assigned_ms >= self._settings.assignment_interval_ms

    # -- the member ------------------------------------------------------------------------------------------

    def _reconcile(self, target: _Target, reported: Sequence[PartitionList] | None) -> ConsumerMember:
        group, member, effects = self._group, self._member, self._effects
        if not self._subscription_changed and member.is_reconciled_to(target.epoch):
            return member
        advanced = Reconciliation(
            target.epoch,
            target.assignment,
            self._topics.ids(subscribed_topics(member, self._regexes)),
            group.is_owned,
            reported,
            self._subscription_changed,
        ).advance(member)
        if advanced != member:
            logger.debug(
                "group %s: member %s is in epoch %d, %s",
                group.group_id,
                advanced.member_id,
                advanced.member_epoch,
                advanced.state.name,
            )
            effects.write(current_record(group.group_id, advanced))
            if advanced.classic is None:
                self._time_revocation(advanced)
        return advanced

    def _time_revocation(self, member: ConsumerMember) -> None:
        timer = rebalance_timer(self._group.group_id, member.member_id)
        if member.state is MemberState.UNREVOKED_PARTITIONS:
            self._effects.set_timer(timer, member.rebalance_timeout_ms)
        else:
            self._effects.cancel_timer(timer)
