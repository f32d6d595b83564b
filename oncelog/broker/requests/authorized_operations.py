"""What a client may do, as the bit fields that answers carry when asked to (KIP-430).

A bit's number is the operation's code: 3 read, 4 write, 5 create, 6 delete, 7 alter, 8 describe, 9 cluster
action, 10 describe configs, 11 alter configs, 12 idempotent write. Without an authorizer, all that a kind of
resource knows is allowed.
"""

from __future__ import annotations

TOPIC_OPERATIONS = sum(1 << code for code in (3, 4, 5, 6, 7, 8, 10, 11))
CLUSTER_OPERATIONS = sum(1 << code for code in (5, 7, 8, 9, 10, 11, 12))
GROUP_OPERATIONS = sum(1 << code for code in (3, 6, 8, 10, 11))
