"""Pure state machines: groups and transactions. No files, no sockets, no clock, nothing to await.

`contract.py` says what a coordinator is; `run/` has what runs one.
"""
