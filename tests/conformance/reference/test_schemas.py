from __future__ import annotations

import pytest

from conformance.reference.schemas import parse, schemas


def test_comment_is_dropped_and_a_string_with_slashes_is_kept() -> None:
    text = '// licence\n{"name": "A", // "not": 1\n "about": "see http://x/ \\" // still text"}'

    assert parse(text) == {"name": "A", "about": 'see http://x/ " // still text'}


@pytest.mark.java
@pytest.mark.usefixtures("java")
def test_schemas_cover_requests_headers_and_internal_records() -> None:
    found = schemas()

    assert found["ProduceRequest"]["apiKey"] == 0
    assert {
        "RequestHeader",
        "ConsumerProtocolSubscription",
        "OffsetCommitValue",
        "TransactionLogValue",
    } <= set(found)
    requests = {schema["apiKey"] for schema in found.values() if schema["type"] == "request"}
    responses = {schema["apiKey"] for schema in found.values() if schema["type"] == "response"}
    assert requests == responses
