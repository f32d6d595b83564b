/* Arrow columns as records, and the partitions of their keys; see columns.py. */
#ifndef ONCELOG_RECORDS_COLUMNS_H
#define ONCELOG_RECORDS_COLUMNS_H

#include "varint.h"

/* An Arrow array of binary, string or list: int32 offsets, a bitmap of what is not null, and where the array starts. */
struct column {
    Py_buffer offsets, data, validity;
    int64_t start;
    int present, has_data, has_validity;
};

static void release_column(struct column *column)
{
    if (column->present)
        PyBuffer_Release(&column->offsets);
    if (column->has_data)
        PyBuffer_Release(&column->data);
    if (column->has_validity)
        PyBuffer_Release(&column->validity);
    memset(column, 0, sizeof *column);
}

/* Takes (offsets, data or None, validity or None, start), or None for a column that is null in every row. */
static int open_column(PyObject *source, struct column *column)
{
    PyObject *offsets, *data, *validity;
    long long start;
    memset(column, 0, sizeof *column);
    if (source == Py_None)
        return 0;
    if (!PyTuple_Check(source)) {
        PyErr_SetString(PyExc_TypeError, "a column is a tuple or None");
        return -1;
    }
    if (!PyArg_ParseTuple(source, "OOOL", &offsets, &data, &validity, &start))
        return -1;
    if (start < 0 || start > INT32_MAX) {
        PyErr_SetString(PyExc_IndexError, "a column starts outside its buffers");
        return -1;
    }
    column->start = start;
    if (PyObject_GetBuffer(offsets, &column->offsets, PyBUF_SIMPLE))
        return -1;
    column->present = 1;
    if (data != Py_None) {
        if (PyObject_GetBuffer(data, &column->data, PyBUF_SIMPLE))
            goto failed;
        column->has_data = 1;
    }
    if (validity != Py_None) {
        if (PyObject_GetBuffer(validity, &column->validity, PyBUF_SIMPLE))
            goto failed;
        column->has_validity = 1;
    }
    return 0;
failed:
    release_column(column);
    return -1;
}

static inline int32_t int32_at(const Py_buffer *buffer, int64_t index)
{
    int32_t value;
    memcpy(&value, (const char *)buffer->buf + index * 4, 4);
    return value;
}

/* Finds what the offsets of one row enclose: 1 something, 0 null, -1 an offset that leads outside. */
static inline int row_range(const struct column *column, int64_t row, int32_t *from, int32_t *to)
{
    if (!column->present)
        return 0;
    int64_t index = column->start + row;
    if (row < 0 || index + 1 >= column->offsets.len / 4)
        return -1;
    if (column->has_validity) {
        if (index / 8 >= column->validity.len)
            return -1;
        if (!(((const uint8_t *)column->validity.buf)[index / 8] >> (index % 8) & 1))
            return 0;
    }
    *from = int32_at(&column->offsets, index);
    *to = int32_at(&column->offsets, index + 1);
    return *from < 0 || *to < *from ? -1 : 1;
}

struct field {
    const uint8_t *bytes;
    int64_t length; /* -1 for null */
};

static inline int read_field(const struct column *column, int64_t row, struct field *field)
{
    int32_t from, to;
    int found = row_range(column, row, &from, &to);
    field->bytes = NULL;
    field->length = -1;
    if (found <= 0)
        return found;
    if (to > (column->has_data ? column->data.len : 0))
        return -1;
    field->bytes = column->has_data ? (const uint8_t *)column->data.buf + from : NULL;
    field->length = to - from;
    return 0;
}

static inline int64_t field_size(const struct field *field)
{
    return varint_size(field->length) + (field->length > 0 ? field->length : 0);
}

static inline uint8_t *write_field(uint8_t *at, const struct field *field)
{
    at = write_varint(at, field->length);
    if (field->length > 0) {
        memcpy(at, field->bytes, (size_t)field->length);
        at += field->length;
    }
    return at;
}

struct source {
    struct column keys, values, header_lists, header_keys, header_values;
};

/* The headers of one row: their range in the child columns, and their size when written. */
static int measure_headers(const struct source *source, int64_t row, int32_t *from, int32_t *to, int64_t *size)
{
    struct field key, value;
    *from = *to = 0;
    if (row_range(&source->header_lists, row, from, to) < 0)
        return -1;
    *size = varint_size(*to - *from);
    for (int32_t index = *from; index < *to; index++) {
        if (read_field(&source->header_keys, index, &key) || read_field(&source->header_values, index, &value))
            return -1;
        if (key.length < 0)
            return -1;
        *size += field_size(&key) + field_size(&value);
    }
    return 0;
}

static uint8_t *write_headers(uint8_t *at, const struct source *source, int32_t from, int32_t to)
{
    struct field key, value;
    at = write_varint(at, to - from);
    for (int32_t index = from; index < to; index++) {
        read_field(&source->header_keys, index, &key);
        read_field(&source->header_values, index, &value);
        at = write_field(write_field(at, &key), &value);
    }
    return at;
}

struct output {
    uint8_t *bytes;
    int64_t size, capacity, size_max;
};

static int reserve(struct output *out, int64_t more)
{
    if (out->size + more <= out->capacity)
        return 0;
    int64_t capacity = out->capacity ? out->capacity : 65536;
    while (capacity < out->size + more)
        capacity *= 2;
    uint8_t *grown = realloc(out->bytes, (size_t)capacity);
    if (!grown)
        return -1;
    out->bytes = grown;
    out->capacity = capacity;
    return 0;
}

enum step { WRITTEN, FULL, OUTSIDE, TOO_FAR, NO_MEMORY };

static enum step encode_record(const struct source *source, int64_t row, int64_t timestamp_delta, int64_t offset_delta,
                               int may_exceed, struct output *out)
{
    struct field key, value;
    int32_t headers_from, headers_to;
    int64_t headers_size;
    if (read_field(&source->keys, row, &key) || read_field(&source->values, row, &value) ||
        measure_headers(source, row, &headers_from, &headers_to, &headers_size))
        return OUTSIDE;
    int64_t body = 1 + varint_size(timestamp_delta) + varint_size(offset_delta) + field_size(&key) +
                   field_size(&value) + headers_size;
    int64_t total = varint_size(body) + body;
    if (!may_exceed && out->size + total > out->size_max)
        return FULL;
    if (reserve(out, total))
        return NO_MEMORY;
    uint8_t *at = write_varint(out->bytes + out->size, body);
    *at++ = 0; /* the attributes, which have no meaning yet */
    at = write_varint(write_varint(at, timestamp_delta), offset_delta);
    at = write_field(write_field(at, &key), &value);
    write_headers(at, source, headers_from, headers_to);
    out->size += total;
    return WRITTEN;
}

static PyObject *encode_rows(const struct source *source, const Py_buffer *rows, const Py_buffer *timestamps,
                             long long first, long long first_delta, long long base_timestamp, struct output *out)
{
    int64_t newest = -1, next = first, count = rows->len / 4;
    enum step step = WRITTEN;
    for (; next < count; next++) {
        int64_t row = int32_at(rows, next), timestamp;
        if (row < 0 || row >= timestamps->len / 8) {
            step = OUTSIDE;
            break;
        }
        memcpy(&timestamp, (const char *)timestamps->buf + row * 8, 8);
        if (base_timestamp < 0 ? timestamp > INT64_MAX + base_timestamp : timestamp < INT64_MIN + base_timestamp) {
            step = TOO_FAR;
            break;
        }
        int64_t offset_delta = first_delta + (next - first);
        step = encode_record(source, row, timestamp - base_timestamp, offset_delta, offset_delta == 0, out);
        if (step != WRITTEN)
            break;
        if (timestamp > newest)
            newest = timestamp;
    }
    if (step == NO_MEMORY)
        return PyErr_NoMemory();
    if (step == OUTSIDE) {
        PyErr_SetString(PyExc_IndexError, "a column leads outside its buffers, or a header has no key");
        return NULL;
    }
    if (step == TOO_FAR) {
        PyErr_SetString(PyExc_OverflowError, "a timestamp is too far from that of its batch");
        return NULL;
    }
    return Py_BuildValue("(y#LL)", (const char *)(out->bytes ? out->bytes : (uint8_t *)""), (Py_ssize_t)out->size,
                         (long long)next, (long long)newest);
}

static PyObject *encode_records(PyObject *module, PyObject *args)
{
    Py_buffer rows, timestamps;
    long long first, first_delta, base_timestamp, size_max;
    PyObject *columns[5], *result = NULL;
    struct source source;
    struct column *opened[5] = {&source.keys, &source.values, &source.header_lists, &source.header_keys,
                                &source.header_values};
    struct output out = {NULL, 0, 0, 0};
    int count = 0;
    (void)module;
    if (!PyArg_ParseTuple(args, "y*LLLLy*OOOOO:encode_records", &rows, &first, &first_delta, &base_timestamp,
                          &size_max, &timestamps, &columns[0], &columns[1], &columns[2], &columns[3], &columns[4]))
        return NULL;
    out.size_max = size_max;
    while (count < 5 && open_column(columns[count], opened[count]) == 0)
        count++;
    if (count == 5 && first >= 0 && first_delta >= 0 && first_delta <= INT32_MAX)
        result = encode_rows(&source, &rows, &timestamps, first, first_delta, base_timestamp, &out);
    else if (count == 5)
        PyErr_SetString(PyExc_IndexError, "the first row or its offset delta is out of range");
    while (count-- > 0)
        release_column(opened[count]);
    PyBuffer_Release(&rows);
    PyBuffer_Release(&timestamps);
    free(out.bytes);
    return result;
}

/* The hash of Kafka's Java client: murmur2 with its seed. */
static uint32_t murmur2(const uint8_t *data, uint32_t length)
{
    const uint32_t m = 0x5bd1e995;
    uint32_t h = 0x9747b28c ^ length, left = length & 3;
    const uint8_t *end = data + (length - left);
    for (; data < end; data += 4) {
        uint32_t k = data[0] | (uint32_t)data[1] << 8 | (uint32_t)data[2] << 16 | (uint32_t)data[3] << 24;
        k *= m;
        k ^= k >> 24;
        h = (h * m) ^ (k * m);
    }
    if (left) {
        for (uint32_t index = 0; index < left; index++)
            h ^= (uint32_t)data[index] << (8 * index);
        h *= m;
    }
    h ^= h >> 13;
    h *= m;
    return h ^ (h >> 15);
}

static PyObject *partition_keys(PyObject *module, PyObject *args)
{
    PyObject *keys;
    Py_ssize_t row_count;
    int partition_count;
    struct column column;
    (void)module;
    if (!PyArg_ParseTuple(args, "Oni:partition_keys", &keys, &row_count, &partition_count))
        return NULL;
    if (partition_count <= 0 || row_count < 0 || row_count > INT32_MAX) {
        PyErr_SetString(PyExc_ValueError, "there must be rows and partitions");
        return NULL;
    }
    if (open_column(keys, &column))
        return NULL;
    int32_t *found = malloc((size_t)row_count * 4 + 1);
    PyObject *result = NULL;
    Py_ssize_t row = 0;
    for (; found && row < row_count; row++) {
        struct field key;
        if (read_field(&column, row, &key))
            break;
        uint32_t hash = key.length < 0 ? 0 : murmur2(key.bytes, (uint32_t)key.length) & 0x7fffffff;
        found[row] = key.length < 0 ? -1 : (int32_t)(hash % (uint32_t)partition_count);
    }
    if (!found)
        PyErr_NoMemory();
    else if (row < row_count)
        PyErr_SetString(PyExc_IndexError, "a column leads outside its buffers");
    else
        result = PyBytes_FromStringAndSize((const char *)found, row_count * 4);
    free(found);
    release_column(&column);
    return result;
}

#endif
