"""What the sink tells people. Each message is one line; none of these leaves a part of a batch visible."""

from __future__ import annotations


class SinkError(Exception):
    """The batch cannot be written as it is: an option, a column or a row is wrong, or the cluster refuses it."""


class TransactionalIdInUse(SinkError):
    """Another query writes under the same transactional id."""


class BadRow(Exception):
    """Raised on an executor, before anything is sent; the driver turns it into a SinkError."""


class Repeat(Exception):
    """The transaction cannot be committed, but the batch may be run again under a new epoch."""


class OutcomeUnknown(Repeat):
    """The commit was asked for and not answered: only a new epoch settles what became of it."""
