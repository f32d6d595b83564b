"""Consumer groups (KIP-848): members tell by heartbeats what they have, and the coordinator assigns."""
