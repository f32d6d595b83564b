"""The same requests, byte for byte, to two brokers, and what differs in the decoded answers."""
