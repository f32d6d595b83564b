"""Classic groups: the protocol in which members join and sync, and a leader among them assigns."""
