"""Avro or Protobuf with a schema registry: the bytes that Confluent's deserializers read.

    Avro      0x00, the schema's id (4 bytes, big-endian), the value in Avro's binary encoding
    Protobuf  0x00, the schema's id, 0x00 (the first message of the schema), the value

Spark's modules do the encoding. For Spark 4.0.0 they are
--packages org.apache.spark:spark-avro_2.13:4.0.0,org.apache.spark:spark-protobuf_2.13:4.0.0
"""

from __future__ import annotations

import json
import struct
import urllib.request
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

MAGIC = b"\x00"
FIRST_MESSAGE = b"\x00"


def register(registry: str, subject: str, schema: str, kind: str = "AVRO") -> int:
    """The id under which the registry has the schema; it adds one that it does not have."""
    body = json.dumps({"schema": schema, "schemaType": kind}).encode()
    headers = {"Content-Type": "application/vnd.schemaregistry.v1+json"}
    request = urllib.request.Request(f"{registry}/subjects/{subject}/versions", body, headers)
    with urllib.request.urlopen(request) as answer:
        return int(json.load(answer)["id"])


def framed(value: Column, schema_id: int, after: bytes = b"") -> Column:
    from pyspark.sql.functions import concat, lit

    header = MAGIC + struct.pack(">I", schema_id) + after
    return concat(lit(bytearray(header)), value)


def as_avro(rows: DataFrame, schema: str, schema_id: int) -> DataFrame:
    """All columns of `rows`, as the value of a record."""
    from pyspark.sql.avro.functions import to_avro
    from pyspark.sql.functions import struct as columns

    return rows.select(framed(to_avro(columns("*"), schema), schema_id).alias("value"))


def as_protobuf(rows: DataFrame, message: str, descriptors: bytes, schema_id: int) -> DataFrame:
    """`descriptors` is what `protoc --descriptor_set_out` wrote."""
    from pyspark.sql.functions import struct as columns
    from pyspark.sql.protobuf.functions import to_protobuf

    value = to_protobuf(columns("*"), message, binaryDescriptorSet=descriptors)
    return rows.select(framed(value, schema_id, FIRST_MESSAGE).alias("value"))
