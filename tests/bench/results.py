"""A run's results, made by hand."""

from __future__ import annotations

from bench.results import CaseResult, Results, Run

STARTED = "2026-01-01 00:00 UTC"


def case(
    work: str, name: str, headline: str, samples: dict[str, list[dict[str, float]]], **params: object
) -> CaseResult:
    runs = {peer: Run(rounds) for peer, rounds in samples.items()}
    return CaseResult(work, name, headline, dict(params), runs, run=STARTED)


def produce(size: int, partitions: int, **megabytes_per_s: list[float]) -> CaseResult:
    """Peers by their names with underscores; what is fast is also cheap."""
    samples = {
        peer.replace("_", "-"): [{"mb_per_s": rate, "cpu_ms_per_mb": 100 / rate} for rate in rates]
        for peer, rates in megabytes_per_s.items()
    }
    return case("produce", f"{size} B x {partitions}", "mb_per_s", samples, size=size, partitions=partitions)


def transactions(client: str, kafka: float, oncelog: float, kfake: float) -> CaseResult:
    samples = {
        peer: [{"transactions_per_s": rate}]
        for peer, rate in (("kafka", kafka), ("oncelog", oncelog), ("kfake", kfake))
    }
    return case("transactions", f"of 1, {client}", "transactions_per_s", samples, records=1, client=client)


def sample_results() -> Results:
    results = Results({"cores": 2}, STARTED, 25.0, warmup_seconds=6.0)
    results.put(produce(100, 1, kafka=[100, 110], oncelog=[200, 220], oncelog_fsync=[90, 100], floor=[300, 300]))
    results.put(produce(100, 8, kafka=[100, 100], oncelog=[140, 130], oncelog_fsync=[110, 120]))
    results.put(
        case(
            "latency",
            "single produce",
            "p50_ms",
            {
                peer: [{"p50_ms": value, "p99_ms": 2 * value, "p999_ms": 5 * value}]
                for peer, value in {"kafka": 1.0, "oncelog": 0.25, "oncelog-fsync": 1.5}.items()
            },
            kind="produce",
        )
    )
    for client, rates in (("confluent", (100.0, 250.0, 270.0)), ("java", (50.0, 600.0, 1500.0))):
        results.put(transactions(client, *rates))
    # The machine has become half as fast meanwhile, which the control shows.
    for partitions, cost_us, control_us in ((10, 100.0, 100.0), (10_000, 220.0, 200.0)):
        samples = {
            "oncelog": [{"cpu_us_per_request": cost_us, "rss_mb": 50.0}],
            "oncelog-control": [{"cpu_us_per_request": control_us}],
        }
        name = f"{partitions} partitions"
        results.put(case("partitions", name, "cpu_us_per_request", samples, partitions=partitions))
    start = {"oncelog": [{"start_s": 7.0, "rss_mb": 200.0}]}
    results.put(case("partitions", "start", "start_s", start, start_with_partitions=10_000))
    return results
