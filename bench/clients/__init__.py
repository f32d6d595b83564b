"""The load: confluent-kafka (librdkafka), Kafka's own Java tools, and bare sockets with requests made beforehand."""
