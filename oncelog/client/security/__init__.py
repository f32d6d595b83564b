"""TLS and SASL for the client, under the names that Kafka's own clients have for their settings."""
