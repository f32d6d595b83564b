"""What a decision is: the writes, the revisions on which it rests, and the answer once it is written."""

from __future__ import annotations

# The one of oncelog.named_tuple cannot be generic.
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from oncelog.broker.metadata.store import Compare
from oncelog.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from oncelog.broker.metadata.image import MetadataImage
    from oncelog.broker.metadata.store import Write

T_co = TypeVar("T_co", covariant=True)


class Outcome(NamedTuple):
    """Kafka's code and, where it is not NONE, a sentence for people."""

    code: ErrorCode = ErrorCode.NONE
    message: str | None = None

    @classmethod
    def refused(cls, error: KafkaError) -> Outcome:
        return cls(error.code, error.message or None)


OK = Outcome()


class Plan(NamedTuple, Generic[T_co]):
    """`results` holds once `writes` happened; after a conflict on `compares` one plans on a newer image."""

    results: T_co
    writes: Sequence[Write] = ()
    compares: Sequence[Compare] = ()


def compare_written(image: MetadataImage, writes: Sequence[Write]) -> list[Compare]:
    """The usual condition: nobody has touched what will be written since the image was made."""
    return [Compare(write.key, image.revision_of(write.key)) for write in writes]
