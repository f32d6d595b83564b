"""Transactions: one shard's transactional ids. `coordinator.py` is the entrance."""
