"""Side by side with Apache Kafka, in one run: both brokers up, the same client, rounds in turn.

The machines are shared and noisy, so ratios of one run are the figures; absolute numbers only go along.
"""
