"""The same scenarios, with real clients, against Apache Kafka and against Oncelog; and what differs."""
