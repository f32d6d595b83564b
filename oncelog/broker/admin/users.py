"""Changes to users, as handlers ask for them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from oncelog.broker.metadata.plans.users import CredentialChange, plan_scram_credentials

if TYPE_CHECKING:
    from oncelog.broker.metadata.plans.plan import Outcome
    from oncelog.broker.requests.services import Services

USERS_PER_WRITE = 100
"""To plan a write and to apply it takes the event loop 20 µs a user."""


async def alter_scram_credentials(services: Services, changes: Sequence[CredentialChange]) -> dict[str, Outcome]:
    """The outcome for each user. Users are written some at a time, all changes of a user together."""
    by_user: dict[str, list[CredentialChange]] = {}
    for change in changes:
        by_user.setdefault(change.user, []).append(change)
    users = list(by_user.values())
    outcomes: dict[str, Outcome] = {}
    for first in range(0, len(users), USERS_PER_WRITE):
        some = [change for user in users[first : first + USERS_PER_WRITE] for change in user]
        outcomes |= await services.metadata.change(partial(plan_scram_credentials, changes=some))
    return outcomes
