"""The scenarios by name. Each is a function of a client and a run that returns what the client saw."""

from __future__ import annotations

from conformance.scenarios.admin_errors import admin_errors
from conformance.scenarios.auto_create import auto_create
from conformance.scenarios.compaction import compaction
from conformance.scenarios.configs import configs
from conformance.scenarios.create_topics import create_topics
from conformance.scenarios.groups import groups, rebalance
from conformance.scenarios.isolation import isolation
from conformance.scenarios.large_messages import large_messages
from conformance.scenarios.list_offsets import list_offsets
from conformance.scenarios.produce_consume import produce_consume
from conformance.scenarios.quotas import quotas
from conformance.scenarios.reconnects import reconnects
from conformance.scenarios.restart import restart
from conformance.scenarios.retention import retention
from conformance.scenarios.transactions import idempotence, transactions

SCENARIOS = {
    scenario.__name__: scenario
    for scenario in (
        create_topics,
        admin_errors,
        auto_create,
        configs,
        list_offsets,
        produce_consume,
        large_messages,
        groups,
        rebalance,
        idempotence,
        transactions,
        isolation,
        retention,
        compaction,
        quotas,
        restart,
        reconnects,
    )
}
