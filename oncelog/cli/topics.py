"""`oncelog topics`: create, list, describe, alter and delete topics."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

import typer

from oncelog.cli.app import (
    BOOTSTRAP_DEFAULT,
    Bootstrap,
    CommandConfig,
    Json,
    delete_each,
    open_cluster,
    run_app,
)
from oncelog.cli.help import App
from oncelog.cli.output import count_text, print_json, size_text
from oncelog.cli.tables import print_table
from oncelog.client.admin import BROKER_DEFAULT, Admin, ConfigValue, PartitionState, TopicState
from oncelog.protocol.primitives import uuid_text

app = App("Create, list, describe, alter and delete topics.")

_NO_TOPICS = "There are no topics. Create one: oncelog topics create NAME"

Name = Annotated[str, typer.Argument(metavar="NAME", help="The topic.")]


def run(argv: list[str]) -> int:
    return run_app(app, "topics", argv or ["--help"])


def _parse_configs(pairs: list[str] | None) -> dict[str, str]:
    configs = {}
    for pair in pairs or ():
        key, equals, value = pair.partition("=")
        if not key or not equals:
            raise typer.BadParameter(f"{pair!r} is not KEY=VALUE")
        configs[key.strip()] = value
    return configs


Configs = Annotated[
    list[str] | None,
    typer.Option("--config", "-c", metavar="KEY=VALUE", help="A config of the topic; repeatable."),
]


@app.command()
def create(
    name: Name,
    partitions: Annotated[
        int | None, typer.Option("--partitions", "-p", metavar="N", min=1, max=2**31 - 1, help="Default: the broker's.")
    ] = None,
    replication_factor: Annotated[
        int | None,
        typer.Option("--replication-factor", "-r", metavar="N", min=1, max=2**15 - 1, help="Default: the broker's."),
    ] = None,
    config: Configs = None,
    if_not_exists: Annotated[bool, typer.Option("--if-not-exists", help="Succeed if it is there already.")] = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    command_config: CommandConfig = None,
    json: Json = False,
) -> None:
    """Create a topic."""
    configs = _parse_configs(config)
    with open_cluster(bootstrap, command_config) as cluster:
        admin = Admin(cluster)
        if if_not_exists and not cluster.refresh([name])[name].error_code:
            topic, verb = cluster.topic(name), "exists"
        else:
            topic = admin.create_topic(
                name,
                partitions=BROKER_DEFAULT if partitions is None else partitions,
                replication_factor=BROKER_DEFAULT if replication_factor is None else replication_factor,
                configs=configs,
            )
            verb = "created"
        replicas = max(len(partition.replicas) for partition in topic.partitions.values())
        if json:
            print_json(
                {
                    "name": name,
                    "id": uuid_text(topic.topic_id),
                    "partition_count": len(topic.partitions),
                    "replication_factor": replicas,
                    "created": verb == "created",
                }
            )
        else:
            factor = "" if replicas == 1 else f", replication factor {replicas}"
            print(f"Topic {name} {verb}: {count_text(len(topic.partitions), 'partition')}{factor}.")


@app.command("list")
def list_(
    internal: Annotated[
        bool, typer.Option("--internal", "-i", help="Also the topics that the brokers keep for themselves.")
    ] = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    command_config: CommandConfig = None,
    json: Json = False,
) -> None:
    """List topics with their partitions, records and sizes.

    RECORDS is what a read_committed consumer gets. A partition of more than 1 MiB is not counted: there, ≤ says that
    it has at most as many records as offsets.
    """
    with open_cluster(bootstrap, command_config) as cluster:
        topics = [topic for topic in Admin(cluster).describe_topics() if internal or not topic.is_internal]
    if json:
        print_json([_summary(topic) for topic in topics])
    elif not topics:
        print(_NO_TOPICS)
    else:
        rows = [
            (
                topic.name,
                str(len(topic.partitions)),
                str(max(len(partition.replicas) for partition in topic.partitions)),
                _records_text(topic.partitions),
                size_text(_size(topic)),
            )
            for topic in topics
        ]
        print_table(("TOPIC", ">PARTITIONS", ">REPLICAS", ">RECORDS", ">SIZE"), rows)


@app.command()
def describe(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Default: all topics.")] = None,
    all_configs: Annotated[
        bool, typer.Option("--all-configs", "-a", help="Also configs that have their default.")
    ] = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    command_config: CommandConfig = None,
    json: Json = False,
) -> None:
    """Show a topic's partitions, offsets and configs.

    RECORDS is what a read_committed consumer gets. A partition of more than 1 MiB is not counted: there, ≤ says that
    it has at most as many records as offsets.
    """
    with open_cluster(bootstrap, command_config) as cluster:
        admin = Admin(cluster)
        found: list[tuple[TopicState, list[ConfigValue]]] = []
        for topic in admin.describe_topics(name):
            if name is None and topic.is_internal:
                continue
            configs = admin.describe_configs(topic.name)
            found.append((topic, [each for each in configs if all_configs or not each.is_default]))
    if json:
        described = [_description(topic, configs) for topic, configs in found]
        print_json(described if name is None else described[0])
        return
    if not found:
        print(_NO_TOPICS)
    for place, (topic, configs) in enumerate(found):
        if place:
            print()
        _print_description(topic, configs)


@app.command()
def alter(
    name: Name,
    partitions: Annotated[
        int | None,
        typer.Option("--partitions", "-p", metavar="N", min=1, max=2**31 - 1, help="The new number; it can only grow."),
    ] = None,
    config: Configs = None,
    delete_config: Annotated[
        list[str] | None,
        typer.Option("--delete-config", "-d", metavar="KEY", help="Back to the default; repeatable."),
    ] = None,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    command_config: CommandConfig = None,
    json: Json = False,
) -> None:
    """Add partitions to a topic, or change its configs."""
    values, deleted = _parse_configs(config), delete_config or []
    if partitions is None and not values and not deleted:
        raise typer.BadParameter("give --partitions, --config or --delete-config")
    changes = []
    with open_cluster(bootstrap, command_config) as cluster:
        admin = Admin(cluster)
        if values or deleted:
            admin.alter_configs(name, values=values, deleted=deleted)
            changes += [f"{key}={value}" for key, value in values.items()]
            changes += [f"{key} has its default" for key in deleted]
        if partitions is not None:
            admin.create_partitions(name, partitions)
            changes.append(count_text(partitions, "partition"))
    if json:
        print_json({"name": name, "partitions": partitions, "config": values, "deleted_config": deleted})
    else:
        print(f"Topic {name} altered: {', '.join(changes)}.")


@app.command()
def delete(
    names: Annotated[list[str], typer.Argument(metavar="NAME", help="The topics.")],
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    command_config: CommandConfig = None,
    json: Json = False,
) -> None:
    """Delete topics with all their records."""
    with open_cluster(bootstrap, command_config) as cluster:
        delete_each(names, Admin(cluster).delete_topic, kind="topic", json=json)


# -- what is shown -------------------------------------------------------------------------------------------


def _records(partitions: Iterable[PartitionState]) -> tuple[int, bool]:
    """The number of records, and whether they were counted; if not, there are at most as many."""
    total, exact = 0, True
    for partition in partitions:
        if partition.record_count is None:
            exact = False
            total += partition.end_offset - partition.start_offset
        else:
            total += partition.record_count
    return total, exact


def _records_text(partitions: Iterable[PartitionState]) -> str:
    count, exact = _records(partitions)
    return f"{count:,}" if exact else f"≤{count:,}"


def _size(topic: TopicState) -> int | None:
    sizes = [partition.size_bytes for partition in topic.partitions]
    return None if None in sizes else sum(size or 0 for size in sizes)


def _summary(topic: TopicState) -> dict[str, Any]:
    records, exact = _records(topic.partitions)
    return {
        "name": topic.name,
        "id": uuid_text(topic.topic_id),
        "internal": topic.is_internal,
        "partition_count": len(topic.partitions),
        "replication_factor": max(len(partition.replicas) for partition in topic.partitions),
        "records": records,
        "records_exact": exact,
        "size_bytes": _size(topic),
    }


def _description(topic: TopicState, configs: list[ConfigValue]) -> dict[str, Any]:
    return _summary(topic) | {
        "partitions": [partition._asdict() for partition in topic.partitions],
        "configs": {each.name: each.value for each in configs},
    }


def _print_description(topic: TopicState, configs: list[ConfigValue]) -> None:
    facts = [
        f"id {uuid_text(topic.topic_id)}",
        count_text(len(topic.partitions), "partition"),
        f"{_records_text(topic.partitions)} record{'' if _records(topic.partitions) == (1, True) else 's'}",
    ]
    print(f"{topic.name}  ({', '.join(facts)})")
    columns = (">PARTITION", ">LEADER", "REPLICAS", "IN SYNC", ">START", ">END", ">RECORDS", ">SIZE")
    print_table(columns, map(_partition_row, topic.partitions), indent=2)
    if configs:
        print_table(
            ("CONFIG", "VALUE"), [(each.name, "" if each.value is None else each.value) for each in configs], indent=2
        )


def _partition_row(partition: PartitionState) -> tuple[str, ...]:
    return (
        str(partition.partition),
        "none" if partition.leader_id < 0 else str(partition.leader_id),
        ",".join(map(str, partition.replicas)),
        ",".join(map(str, partition.isr)),
        f"{partition.start_offset:,}",
        f"{partition.end_offset:,}",
        _records_text([partition]),
        size_text(partition.size_bytes),
    )
