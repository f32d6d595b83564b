"""The scenarios by name. Each is a function of a client and a run that returns what the client saw."""

from __future__ import annotations

from conformance.scenarios.admin_errors import admin_errors
from conformance.scenarios.auto_create import auto_create
from conformance.scenarios.configs import configs
from conformance.scenarios.create_topics import create_topics
from conformance.scenarios.groups import groups, rebalance
from conformance.scenarios.list_offsets import list_offsets
from conformance.scenarios.produce_consume import produce_consume
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
        groups,
        rebalance,
        idempotence,
        transactions,
        retention,
        restart,
    )
}
