"""`oncelog txns`: list, describe and abort transactions, and say which one holds readers up."""

from __future__ import annotations

import time
from typing import Annotated, Any

import typer

from oncelog.cli.app import BOOTSTRAP_DEFAULT, Bootstrap, CommandConfig, Json, open_cluster, run_app
from oncelog.cli.durations import duration_text
from oncelog.cli.help import App
from oncelog.cli.output import count_text, print_json
from oncelog.cli.tables import print_table
from oncelog.client.transactions import (
    NO_DURATION,
    DescribedTransaction,
    HeldPartition,
    OpenTransaction,
    TransactionAdmin,
)

app = App("List, describe and abort transactions; say which one holds readers up.")

Id = Annotated[str, typer.Argument(metavar="ID", help="The transactional id.")]


def run(argv: list[str]) -> int:
    return run_app(app, "txns", argv or ["--help"])


@app.command("list")
def list_(
    state: Annotated[
        list[str] | None,
        typer.Option("--state", "-s", metavar="STATE", help="Only in this state, such as Ongoing; repeatable."),
    ] = None,
    longer_than: Annotated[
        float | None,
        typer.Option("--longer-than", metavar="SECONDS", min=0, max=10**9, help="Only those open for longer."),
    ] = None,
    match: Annotated[str | None, typer.Option("--match", metavar="REGEX", help="Only ids that match.")] = None,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    command_config: CommandConfig = None,
    json: Json = False,
) -> None:
    """List transactional ids with their producer and state."""
    with open_cluster(bootstrap, command_config) as cluster:
        found = TransactionAdmin(cluster).list_transactions(
            states=state or (),
            duration_ms=NO_DURATION if longer_than is None else int(longer_than * 1000),
            pattern=match,
        )
    if json:
        print_json([transaction._asdict() for transaction in found])
    elif not found:
        print("There are no such transactions.")
    else:
        rows = [(txn.transactional_id, txn.state, str(txn.producer_id), str(txn.coordinator_id)) for txn in found]
        print_table(("ID", "STATE", ">PRODUCER", ">COORDINATOR"), rows)


@app.command()
def describe(
    transactional_id: Id,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    command_config: CommandConfig = None,
    json: Json = False,
) -> None:
    """Show a transactional id: its producer, its state and the partitions of its transaction."""
    with open_cluster(bootstrap, command_config) as cluster:
        described = TransactionAdmin(cluster).describe(transactional_id)
    if json:
        print_json(_described_json(described))
        return
    print(f"{transactional_id}: {described.state}")
    print(f"  producer    {described.producer_id}, epoch {described.epoch}")
    _print_client(described)
    print(f"  coordinator broker {described.coordinator_id}")
    print(f"  timeout     {duration_text(described.timeout_ms)}")
    if described.partitions:
        print(f"  open for    {duration_text(_age_ms(described.start_ms))}")
        print(f"  partitions  {', '.join(f'{topic}:{partition}' for topic, partition in described.partitions)}")


@app.command("why-stuck")
def why_stuck(
    place: Annotated[str, typer.Argument(metavar="TOPIC[:PARTITION]", help="Where readers do not get on.")],
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    command_config: CommandConfig = None,
    json: Json = False,
) -> None:
    """Say what holds read_committed readers up: the open transaction, whose it is, and when it will end.

    Exits with 1 if anything is held up.
    """
    topic, partition = _parse_place(place)
    with open_cluster(bootstrap, command_config) as cluster:
        partitions = TransactionAdmin(cluster).held_partitions(topic, partition)
    held = [found for found in partitions if found.held_back]
    if json:
        print_json([_held_json(stuck) for stuck in held])
    elif not held:
        ends = ", ".join(f"{found.partition} at {found.high_watermark}" for found in partitions)
        print(f"Nothing is held up: every reader can reach the end of {topic} (partition {ends}).")
    else:
        for stuck in held:
            _explain(stuck)
    if held:
        raise typer.Exit(1)


@app.command()
def abort(
    target: Annotated[
        str, typer.Argument(metavar="ID|TOPIC:PARTITION", help="A transactional id; with --start-offset, a partition.")
    ],
    start_offset: Annotated[
        int | None,
        typer.Option(
            "--start-offset",
            metavar="OFFSET",
            min=0,
            help="For a transaction that no coordinator knows: where it began.",
        ),
    ] = None,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    command_config: CommandConfig = None,
) -> None:
    """Abort an open transaction. Its producer is fenced and has to start anew."""
    with open_cluster(bootstrap, command_config) as cluster:
        admin = TransactionAdmin(cluster)
        if start_offset is None:
            before = admin.abort(target)
            where = count_text(len(before.partitions), "partition")
            print(f"Aborted the transaction of {target} in {where}; producer {before.producer_id} is fenced.")
            return
        topic, partition = _parse_place(target)
        if partition is None:
            raise typer.BadParameter(f"{target!r} has no partition; it is TOPIC:PARTITION with --start-offset")
        ended = admin.abort_in_partition(topic, partition, start_offset)
        print(f"Aborted the transaction of producer {ended.producer_id} in {topic}:{partition}.")


def _parse_place(place: str) -> tuple[str, int | None]:
    topic, colon, partition = place.rpartition(":")
    if not colon:
        return place, None
    if not topic or not partition.isdecimal():
        raise typer.BadParameter(f"{place!r} is not TOPIC or TOPIC:PARTITION")
    return topic, int(partition)


def _explain(held: HeldPartition) -> None:
    print(
        f"{held.topic}:{held.partition} is readable up to {held.stable_offset}, its end is {held.high_watermark}: "
        f"{count_text(held.held_back, 'offset')} held back from read_committed readers."
    )
    if not held.open_transactions:
        print("  No transaction is open: the last one is just ending.")
        return
    holder, *others = held.open_transactions
    _explain_holder(held, holder)
    if others:
        waiting = ", ".join(f"producer {other.producer_id} since offset {other.start_offset}" for other in others)
        print(f"  behind it   {waiting}")


def _explain_holder(held: HeldPartition, holder: OpenTransaction) -> None:
    transaction = holder.transaction
    if transaction is None:
        print(f"  held by     producer {holder.producer_id}, epoch {holder.epoch}, since offset {holder.start_offset}")
        print(f"  last write  {duration_text(_age_ms(holder.last_timestamp_ms))} ago")
        print("  No coordinator knows this transaction, so it hangs for ever. To end it:")
        place = f"{held.topic}:{held.partition}"
        print(f"    oncelog txns abort {place} --start-offset {holder.start_offset}")
        return
    age_ms = _age_ms(transaction.start_ms)
    print(f"  held by     {transaction.transactional_id} ({transaction.state}), since offset {holder.start_offset}")
    print(f"  producer    {holder.producer_id}, epoch {holder.epoch}")
    _print_client(transaction)
    print(f"  open for    {duration_text(age_ms)}; it is aborted after {duration_text(transaction.timeout_ms)}")
    print(f"  Once it ends, readers go on at {held.stable_offset}; if it aborts, they skip what it wrote.")
    print(f"  To abort it now: oncelog txns abort {transaction.transactional_id}")


def _print_client(transaction: DescribedTransaction) -> None:
    """Apache Kafka does not tell, and then there is nothing to say."""
    if transaction.client_address == "":
        print("  client      unknown (before the last restart)")
    elif transaction.client_address is not None:
        print(f"  client      {transaction.client_address}, client.id {transaction.client_id!r}")


def _age_ms(since_ms: int) -> int:
    return max(0, int(time.time() * 1000) - since_ms)


def _described_json(described: DescribedTransaction) -> dict[str, Any]:
    return described._asdict() | {
        "partitions": [{"topic": topic, "partition": partition} for topic, partition in described.partitions]
    }


def _held_json(held: HeldPartition) -> dict[str, Any]:
    return held._asdict() | {
        "held_back": held.held_back,
        "open_transactions": [
            opened._asdict()
            | {"transaction": None if opened.transaction is None else _described_json(opened.transaction)}
            for opened in held.open_transactions
        ],
    }
