"""Oncelog: a Kafka-compatible broker in Python with complete exactly-once delivery."""

__version__ = "0.1.0"
