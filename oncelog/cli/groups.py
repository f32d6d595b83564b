"""`oncelog groups`: list, describe, reset and delete consumer groups."""

from __future__ import annotations

import re
import time
from datetime import datetime
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
from oncelog.cli.output import count_text, print_json
from oncelog.cli.tables import print_table
from oncelog.client.cluster import Cluster, TopicPartition
from oncelog.client.groups import GroupAdmin, GroupDescription, GroupPosition
from oncelog.client.offsets import EARLIEST, LATEST

app = App("List, describe, reset and delete consumer groups.")

Group = Annotated[str, typer.Argument(metavar="GROUP", help="The group.")]

_DURATION = re.compile(r"(\d+)(ms|s|m|h|d)")
_UNIT_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def run(argv: list[str]) -> int:
    return run_app(app, "groups", argv or ["--help"])


@app.command("list")
def list_(
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    command_config: CommandConfig = None,
    json: Json = False,
) -> None:
    """List groups with their protocol and state."""
    with open_cluster(bootstrap, command_config) as cluster:
        groups = GroupAdmin(cluster).list_groups()
    if json:
        print_json([group._asdict() for group in groups])
    elif not groups:
        print("There are no groups. A consumer with a group.id makes one.")
    else:
        rows = [(group.group_id, group.type, group.state, group.protocol_type or "-") for group in groups]
        print_table(("GROUP", "TYPE", "STATE", "PROTOCOL"), rows)


@app.command()
def describe(
    group: Group, bootstrap: Bootstrap = BOOTSTRAP_DEFAULT, command_config: CommandConfig = None, json: Json = False
) -> None:
    """Show a group's members, offsets and lag.

    The lag counts records that are still to be received; markers of transactions and aborted records are not.
    """
    with open_cluster(bootstrap, command_config) as cluster:
        description = GroupAdmin(cluster).describe(group)
    if json:
        print_json(_as_json(description))
    else:
        _print_description(description)


@app.command()
def reset(
    group: Group,
    topic: Annotated[
        list[str] | None,
        typer.Option("--topic", "-t", metavar="TOPIC[:PARTITION,…]", help="Default: all that the group has committed."),
    ] = None,
    to: Annotated[
        str | None,
        typer.Option("--to", metavar="earliest|latest|OFFSET|TIME", help="TIME is ISO 8601, or milliseconds with @."),
    ] = None,
    by: Annotated[
        str | None, typer.Option("--by", metavar="±N|DURATION", help="Offsets to move, or how long back: 15m, 2h, 7d.")
    ] = None,
    execute: Annotated[bool, typer.Option("--execute", help="Do it; without this, only show what would be.")] = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    command_config: CommandConfig = None,
    json: Json = False,
) -> None:
    """Move a group's offsets. Shows the new offsets and changes nothing unless --execute is given."""
    if (to is None) == (by is None):
        raise typer.BadParameter("give either --to or --by")
    with open_cluster(bootstrap, command_config) as cluster:
        admin = GroupAdmin(cluster)
        admin.check_inactive(group)
        committed = admin.committed(group)
        partitions = _partitions(cluster, topic) if topic else sorted(committed)
        if not partitions:
            raise typer.BadParameter(f"group {group!r} has no committed offsets; name the topics with --topic")
        planned = _plan(admin, partitions, committed, to, by)
        if execute:
            admin.commit(group, planned)
    if json:
        print_json(
            {
                "group": group,
                "executed": execute,
                "offsets": [
                    {"topic": name, "partition": index, "from": committed.get((name, index)), "to": offset}
                    for (name, index), offset in sorted(planned.items())
                ],
            }
        )
        return
    rows = [
        (name, str(index), _offset_text(committed.get((name, index))), f"{offset:,}")
        for (name, index), offset in sorted(planned.items())
    ]
    print_table(("TOPIC", ">PARTITION", ">FROM", ">TO"), rows)
    print(f"Group {group} was reset." if execute else "Nothing was changed; add --execute to do it.")


@app.command()
def delete(
    groups: Annotated[list[str], typer.Argument(metavar="GROUP", help="The groups.")],
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    command_config: CommandConfig = None,
    json: Json = False,
) -> None:
    """Delete groups that nobody is in, with their offsets."""
    with open_cluster(bootstrap, command_config) as cluster:
        delete_each(groups, GroupAdmin(cluster).delete, kind="group", json=json)


# -- where to reset to ---------------------------------------------------------------------------------------


def _partitions(cluster: Cluster, topics: list[str]) -> list[TopicPartition]:
    found: list[TopicPartition] = []
    for text in topics:
        name, colon, indexes = text.partition(":")
        if not colon:
            found += [(name, index) for index in sorted(cluster.topic(name).partitions)]
            continue
        try:
            found += [(name, int(index)) for index in indexes.split(",")]
        except ValueError:
            raise typer.BadParameter(f"{text!r} is not TOPIC:PARTITION,…") from None
    return found


def _plan(
    admin: GroupAdmin,
    partitions: list[TopicPartition],
    committed: dict[TopicPartition, int],
    to: str | None,
    by: str | None,
) -> dict[TopicPartition, int]:
    if to is not None:
        if to.isdecimal():
            return admin.within_log(dict.fromkeys(partitions, int(to)))
        return admin.plan_reset(partitions, _timestamp(to))
    assert by is not None
    duration = _DURATION.fullmatch(by)
    if duration:
        back_ms = int(duration[1]) * _UNIT_MS[duration[2]]
        return admin.plan_reset(partitions, max(0, int(time.time() * 1000) - back_ms))
    try:
        shift = int(by)
    except ValueError:
        raise typer.BadParameter(f"{by!r} is neither a number of offsets nor a duration such as 15m") from None
    missing = [f"{name}-{index}" for name, index in partitions if (name, index) not in committed]
    if missing:
        raise typer.BadParameter(f"there is no offset to move in {', '.join(missing)}; use --to")
    return admin.within_log({partition: committed[partition] + shift for partition in partitions})


def _timestamp(text: str) -> int:
    if text in ("earliest", "latest"):
        return EARLIEST if text == "earliest" else LATEST
    if text.startswith("@") and text[1:].isdecimal() and int(text[1:]) < 2**63:
        return int(text[1:])
    try:
        # Negative times have meanings of their own in Kafka's protocol.
        return max(0, int(datetime.fromisoformat(text).timestamp() * 1000))
    except (ValueError, OverflowError):
        raise typer.BadParameter(f"{text!r} is not earliest, latest, an offset or a time") from None


# -- what is shown -------------------------------------------------------------------------------------------


def _offset_text(offset: int | None) -> str:
    return "-" if offset is None else f"{offset:,}"


def _as_json(description: GroupDescription) -> dict[str, Any]:
    return {
        "group": description.group_id,
        "type": description.type,
        "state": description.state,
        "assignor": description.assignor,
        "members": [member._asdict() for member in description.members],
        "positions": [
            position._asdict() | {"member": position.member.member_id if position.member else None}
            for position in description.positions
        ],
        "lag": _total_lag(description),
    }


def _total_lag(description: GroupDescription) -> int:
    return sum(position.lag or 0 for position in description.positions)


def _print_description(description: GroupDescription) -> None:
    facts = [
        description.type,
        description.state,
        count_text(len(description.members), "member"),
        f"lag {_total_lag(description):,}",
    ]
    print(f"{description.group_id}  ({', '.join(facts)})")
    if description.positions:
        columns = ("TOPIC", ">PARTITION", ">COMMITTED", ">END", ">LAG", "CLIENT", "HOST", "MEMBER")
        print_table(columns, map(_position_row, description.positions), indent=2)
    idle = [member for member in description.members if not member.partitions]
    if idle:
        print_table(
            ("MEMBER WITHOUT PARTITIONS", "CLIENT", "HOST"),
            [(member.member_id, member.client_id, member.host) for member in idle],
            indent=2,
        )


def _position_row(position: GroupPosition) -> tuple[str, ...]:
    member = position.member
    return (
        position.topic,
        str(position.partition),
        _offset_text(position.committed_offset),
        f"{position.end_offset:,}",
        _offset_text(position.lag),
        member.client_id if member else "-",
        member.host if member else "-",
        member.member_id if member else "-",
    )
