/* Fast paths for plain batches: encoding for batch.py, checking for validation.py. */
#ifndef ONCELOG_RECORDS_BATCH_H
#define ONCELOG_RECORDS_BATCH_H

#include "parse.h"
#include "varint.h"

/* The bytes of a key or value: -1 for null, -2 for what is not bytes. */
static inline int64_t bytes_of(PyObject *object, const char **bytes)
{
    *bytes = NULL;
    if (object == Py_None)
        return -1;
    if (!PyBytes_Check(object))
        return -2;
    *bytes = PyBytes_AsString(object);
    return PyBytes_Size(object);
}

static inline uint8_t *write_counted(uint8_t *at, const char *bytes, int64_t length)
{
    at = write_varint(at, length);
    if (length > 0) {
        memcpy(at, bytes, (size_t)length);
        at += length;
    }
    return at;
}

struct plain_record {
    int64_t timestamp_delta, key_size, value_size, size;
    const char *key, *value;
};

/* Reads a tuple (offset, timestamp, key, value, headers, attributes); 0 if it has headers or is otherwise unusual. */
static int read_plain_record(PyObject *source, int64_t base_timestamp, int64_t index, struct plain_record *record)
{
    if (!PyTuple_Check(source) || PyTuple_Size(source) != 6)
        return 0;
    PyObject *when = PyTuple_GetItem(source, 1), *headers = PyTuple_GetItem(source, 4), *bits = PyTuple_GetItem(source, 5);
    /* Exactly these, whose sizes run no code of anybody's. */
    if (!PyLong_Check(when) || !PyLong_Check(bits) || !(PyTuple_CheckExact(headers) || PyList_CheckExact(headers)))
        return 0;
    long long timestamp = PyLong_AsLongLong(when);
    if (PyErr_Occurred() || timestamp < 0 || base_timestamp < 0 || PyObject_Size(headers) || PyLong_AsLongLong(bits))
        return 0;
    record->timestamp_delta = timestamp - base_timestamp;
    record->key_size = bytes_of(PyTuple_GetItem(source, 2), &record->key);
    record->value_size = bytes_of(PyTuple_GetItem(source, 3), &record->value);
    if (record->key_size < -1 || record->value_size < -1)
        return 0;
    record->size = 1 + varint_size(record->timestamp_delta) + varint_size(index) + varint_size(record->key_size) +
                   varint_size(record->value_size) + 1;
    record->size += (record->key_size > 0 ? record->key_size : 0) + (record->value_size > 0 ? record->value_size : 0);
    return 1;
}

/* Encodes a list of records, numbered from 0; None if one of them is not plain. */
static PyObject *encode_plain_records(PyObject *module, PyObject *args)
{
    PyObject *records, *result = NULL;
    long long base_timestamp;
    int64_t size = 0;
    struct plain_record record;
    (void)module;
    if (!PyArg_ParseTuple(args, "O!L:encode_plain_records", &PyList_Type, &records, &base_timestamp))
        return NULL;
    Py_ssize_t count = PyList_Size(records);
    for (Py_ssize_t index = 0; index < count; index++) {
        if (!read_plain_record(PyList_GetItem(records, index), base_timestamp, index, &record)) {
            PyErr_Clear();
            return own(Py_None);
        }
        size += varint_size(record.size) + record.size;
    }
    if (!(result = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)size)))
        return NULL;
    uint8_t *at = (uint8_t *)PyBytes_AsString(result);
    for (Py_ssize_t index = 0; index < count; index++) {
        /* The same as before, since nothing has run that could have changed the list. */
        if (!read_plain_record(PyList_GetItem(records, index), base_timestamp, index, &record)) {
            Py_DECREF(result);
            PyErr_SetString(PyExc_RuntimeError, "the records have changed");
            return NULL;
        }
        at = write_varint(at, record.size);
        *at++ = 0;
        at = write_varint(at, record.timestamp_delta);
        at = write_varint(at, index);
        at = write_counted(at, record.key, record.key_size);
        at = write_counted(at, record.value, record.value_size);
        at = write_varint(at, 0);
    }
    return result;
}

/* The layout of a header is that of batch.py. */
enum { LOG_OVERHEAD = 12, HEADER_SIZE = 61, MAGIC = 2 };
enum { CODEC_MASK = 0x07, LOG_APPEND_TIME_BIT = 0x08, TRANSACTIONAL_BIT = 0x10, CONTROL_BIT = 0x20 };

static inline int16_t int16_from(const uint8_t *at) { return (int16_t)big_endian(at, 2); }
static inline int32_t int32_from(const uint8_t *at) { return (int32_t)big_endian(at, 4); }
static inline int64_t int64_from(const uint8_t *at) { return (int64_t)big_endian(at, 8); }

/* Whether this is exactly one batch of a client's that may be stored as it is. */
static int is_plain_batch(const uint8_t *batch, int64_t size, struct rules *rules)
{
    if (size < HEADER_SIZE || int32_from(batch + 8) != size - LOG_OVERHEAD || batch[16] != MAGIC)
        return 0;
    int attributes = int16_from(batch + 21);
    int64_t producer_id = int64_from(batch + 43);
    int32_t record_count = int32_from(batch + 57);
    if (int64_from(batch) != 0 || attributes & (CODEC_MASK | LOG_APPEND_TIME_BIT | CONTROL_BIT))
        return 0;
    if (record_count <= 0 || record_count - 1 != int32_from(batch + 23))
        return 0;
    if (producer_id >= 0 ? int16_from(batch + 51) < 0 || int32_from(batch + 53) < 0 : attributes & TRANSACTIONAL_BIT)
        return 0;
    rules->base_timestamp = int64_from(batch + 27);
    struct window window = {batch + HEADER_SIZE, (uint64_t)(size - HEADER_SIZE), 0, 0};
    int64_t newest = -1;
    for (uint32_t index = 0; index < (uint32_t)record_count; index++) {
        struct record record = {0};
        if (parse_record(&record, &window, rules, index) || check_rules(rules, &record))
            return 0;
        if (record.timestamp > newest)
            newest = record.timestamp;
    }
    return window.position == window.size && newest == int64_from(batch + 35);
}

/* Takes the batch, whether its topic is compacted, and the bounds on timestamps. */
static PyObject *read_plain_batch(PyObject *module, PyObject *args)
{
    Py_buffer buffer;
    long long timestamp_min, timestamp_max;
    struct rules rules;
    PyObject *header;
    (void)module;
    if (!PyArg_ParseTuple(args, "y*pLL:read_plain_batch", &buffer, &rules.compacted, &timestamp_min, &timestamp_max))
        return NULL;
    rules.timestamp_min = timestamp_min;
    rules.timestamp_max = timestamp_max;
    const uint8_t *batch = buffer.buf;
    if (is_plain_batch(batch, buffer.len, &rules))
        header = Py_BuildValue("(LiiikiiLLLiii)", (long long)0, int32_from(batch + 8), int32_from(batch + 12), MAGIC,
                               (unsigned long)big_endian(batch + 17, 4), int16_from(batch + 21), int32_from(batch + 23),
                               (long long)int64_from(batch + 27), (long long)int64_from(batch + 35),
                               (long long)int64_from(batch + 43), int16_from(batch + 51), int32_from(batch + 53),
                               int32_from(batch + 57));
    else
        header = own(Py_None);
    PyBuffer_Release(&buffer);
    return header;
}

#endif
