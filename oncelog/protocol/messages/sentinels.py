"""Numbers that stand for "not given" in the answers of more than one API."""

from __future__ import annotations

# The smallest int32, because every other value is a set of operations (KIP-430).
AUTHORIZED_OPERATIONS_UNSET = -0x80000000
