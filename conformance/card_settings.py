"""Settings of the brokers that the card is made with."""

SETTINGS = {
    "log.retention.check.interval.ms": "500",
    "log.initial.task.delay.ms": "0",
    "log.cleaner.backoff.ms": "500",
    "quota.window.num": "2",
    "group.consumer.heartbeat.interval.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "1000",
}
"""For both brokers: what they would do after minutes happens within a second."""

APACHE_SETTINGS = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "500"}
"""Oncelog has a timer for each transaction instead."""
