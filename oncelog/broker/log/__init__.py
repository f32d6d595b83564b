"""The partition log on Apache Kafka's own file layout: synchronous, and knows nothing above it."""
