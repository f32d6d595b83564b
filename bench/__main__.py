"""The command line: `python -m bench all | quick | page | list | WORK`."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Collection, Sequence
from pathlib import Path

from bench import machine
from bench.case import BROKERS, Case, Work
from bench.peers import PEERS
from bench.report.page import write_page
from bench.report.terminal import Terminal
from bench.results import QUICK_PATH, RESULTS_PATH, Results, load
from bench.runner import Runner, Settings, plan
from bench.works import WORKS


def main(arguments: Sequence[str] | None = None) -> int:
    options = parser().parse_args(arguments)
    if options.command == "list":
        for work in WORKS.values():
            print(f"{work.name:14} {work.title}")
        return 0
    if options.command == "page":
        write_page(load(options.json), options.json)
        return 0
    if options.command in ("all", "quick"):
        return run_all(options)
    work = WORKS[options.command]
    settings = Settings(rounds=options.rounds, seconds=options.seconds, warmup_seconds=options.warmup)
    return run([(work, work.cases(options))], options, settings)


def run_all(options: argparse.Namespace) -> int:
    """Every kind of work with its own defaults, in one run with one budget; the page is written whatever happens."""
    works = []
    for work in WORKS.values():
        if options.works is not None and work.name not in options.works:
            continue
        own = parser().parse_args([work.name])
        if options.command == "quick":
            if work.quick is None:
                continue
            vars(own).update(work.quick)
        works.append((work, work.cases(own)))
    settings = Settings(
        rounds=options.rounds, seconds=None, budget_seconds=options.minutes * 60, warmup_seconds=options.warmup
    )
    try:
        return run(works, options, settings)
    finally:
        if options.json.exists():
            write_page(load(options.json), options.json)


def run(works: Sequence[tuple[Work, Sequence[Case]]], options: argparse.Namespace, settings: Settings) -> int:
    plans = plan(works, options.peers)
    results = load(options.json) if options.json is not None and options.merge and options.json.exists() else Results()
    now = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
    if not results.started:
        results.machine, results.started = machine.describe(), now
        results.warmup_seconds = settings.warmup_seconds
    began = time.monotonic() - results.minutes * 60
    failed = False
    with Terminal(len(plans)) as terminal:
        for case in Runner(settings, terminal).run(plans):
            case.run = now
            results.put(case)
            results.minutes = (time.monotonic() - began) / 60
            failed |= case.skipped is not None or any(run.error for run in case.runs.values())
            if options.json is not None:
                results.save(options.json)
    return 1 if failed else 0


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    commands.add_parser("list", help="the kinds of work")
    page = commands.add_parser("page", help="the page and its plots, from the JSON of a run")
    page.add_argument("--json", type=Path, default=RESULTS_PATH)
    for name, minutes, rounds, warmup, what in (
        ("all", 30.0, 3, 6.0, "every kind of work"),
        ("quick", 3.0, 2, 2.0, "the goals in three minutes"),
    ):
        one = commands.add_parser(name, help=f"{what}, within a time budget; writes JSON and the page")
        add_common(one)
        one.add_argument("--minutes", type=float, default=minutes, help="the budget, about")
        one.add_argument("--works", type=work_names, help="a list; default: all")
        one.set_defaults(rounds=rounds, warmup=warmup, json=RESULTS_PATH if name == "all" else QUICK_PATH)
        if name == "quick":
            one.set_defaults(peers=frozenset(BROKERS))
    for work in WORKS.values():
        one = commands.add_parser(work.name, help=work.title)
        add_common(one)
        work.add_options(one)
    return top


def work_names(text: str) -> frozenset[str]:
    return _names(text, "work", WORKS)


def add_common(one: argparse.ArgumentParser) -> None:
    one.add_argument("--peers", type=peer_names, help=f"a list of {', '.join(PEERS)} (default: all that the work has)")
    one.add_argument("--rounds", type=int, default=3, help="that are counted")
    one.add_argument("--seconds", type=float, default=2.0, help="of a sample")
    one.add_argument("--warmup", type=float, default=6.0, help="seconds of load on a peer that was just started")
    one.add_argument("--json", type=Path, help=f"where to keep the samples; a full run uses {RESULTS_PATH.name}")
    one.add_argument("--merge", action="store_true", help="keep the other cases of that file")


def peer_names(text: str) -> frozenset[str]:
    return _names(text, "peer", PEERS)


def _names(text: str, kind: str, known: Collection[str]) -> frozenset[str]:
    names = frozenset(text.split(","))
    unknown = sorted(names - set(known))
    if unknown:
        raise argparse.ArgumentTypeError(f"no such {kind}: {', '.join(unknown)} (there are {', '.join(known)})")
    return names


if __name__ == "__main__":
    sys.exit(main())
