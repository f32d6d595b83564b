"""The reference: Apache Kafka from its own jars, its command-line tools, and its message schemas."""
