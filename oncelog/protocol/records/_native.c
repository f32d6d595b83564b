/* Records and batches in C: versions of scan.py and columns.py, and fast paths for the most common batches. The tests run
 * both versions over the same bytes.
 *
 * read_plain_batch is the fast path of validation.py for what nearly every producer sends: one whole, uncompressed batch
 * without a fault. It returns the header, or None, and then the Python code finds the fault. The caller checks the CRC.
 *
 * RecordScanner parses the plain records of a batch, which come in windows, and says whether a broker may store them.
 * Every read is bounded by the end of the window, lengths are only added to a 64-bit position, and its memory does not
 * depend on the records but for a bounded list, so hostile bytes can cause nothing but a verdict. It releases the GIL for
 * large windows.
 *
 * encode_plain_records is the fast path of batch.py for records without headers, as coordinators write them.
 *
 * encode_records and partition_keys read Arrow columns. Every offset is checked against the length of the buffer that it
 * points into before it is followed.
 *
 * This file uses only the limited API of Python 3.11, so one binary serves all later versions.
 */
#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* The numbers are those of verdicts.py. */
enum verdict {
    OK = 0,
    TRUNCATED = 1,
    BAD_VARINT = 2,
    BAD_RECORD_LENGTH = 3,
    BAD_FIELD_LENGTH = 4,
    BAD_HEADER_COUNT = 5,
    NULL_HEADER_KEY = 6,
    NULL_KEY = 7,
    BAD_OFFSET_DELTA = 8,
    LENGTH_MISMATCH = 9,
    BYTES_LEFT_OVER = 10,
    TIMESTAMP_OVERFLOW = 11,
    TIMESTAMP_OUT_OF_RANGE = 12
};

/* A window of the records of a batch. */
struct window {
    const uint8_t *data;
    uint64_t size;
    uint64_t start;    /* where it lies in the records */
    uint64_t position; /* in the window; beyond its end after a length was skipped, which the next read notices */
};

/* What a topic demands of its records. */
struct rules {
    int64_t base_timestamp;
    int64_t timestamp_min;
    int64_t timestamp_max;
    int compacted;
};

/* The field at which the parser of a record goes on. */
enum record_field { LENGTH, TIMESTAMP, OFFSET_DELTA, KEY, VALUE, HEADER_COUNT, HEADER_KEY, HEADER_VALUE, ENDED };

/* What is known of a record so far. All zeros before it begins. Ends are positions in the records. */
struct record {
    enum record_field next;
    unsigned shift; /* how many bits of a varint have been read, and the bits */
    uint64_t raw;
    uint64_t end;
    uint64_t headers_left;
    uint64_t headers_end; /* the least position at which the headers can end */
    int64_t timestamp;
    int has_key;
};

/* Reads an unsigned varint of at most `bits` (32 or 64), before zig-zag is undone. */
static inline enum verdict read_varint(struct record *record, struct window *window, unsigned bits, uint64_t *raw)
{
    while (window->position < window->size) {
        uint8_t byte = window->data[window->position++];
        if (byte < 0x80 && !record->shift) {
            *raw = byte;
            return OK;
        }
        if (record->shift + 7 > bits && byte >> (bits - record->shift))
            return BAD_VARINT;
        record->raw |= (uint64_t)(byte & 0x7f) << record->shift;
        record->shift += 7;
        if (byte < 0x80) {
            *raw = record->raw;
            record->raw = 0;
            record->shift = 0;
            return OK;
        }
    }
    return TRUNCATED;
}

/* Reads a length and skips as many bytes. Null has no bytes. */
static inline enum verdict skip_nullable(struct record *record, struct window *window, int *is_null)
{
    uint64_t raw;
    enum verdict verdict = read_varint(record, window, 32, &raw);
    if (verdict)
        return verdict;
    *is_null = raw == 1;
    if (raw & 1)
        return raw == 1 ? OK : BAD_FIELD_LENGTH;
    window->position += raw >> 1;
    return OK;
}

static inline enum verdict read_timestamp(const struct rules *rules, uint64_t raw, int64_t *timestamp)
{
    int64_t delta = (int64_t)((raw >> 1) ^ (0 - (raw & 1)));
    if (delta > 0 ? rules->base_timestamp > INT64_MAX - delta : rules->base_timestamp < INT64_MIN - delta)
        return TIMESTAMP_OVERFLOW;
    *timestamp = rules->base_timestamp + delta;
    return OK;
}

/* Parses one record: the only code that does. Where the window ends inside it, the verdict is TRUNCATED, and the next
 * call goes on in the next window: the switch jumps to the field at which the last call stopped. */
static inline enum verdict parse_record(struct record *record, struct window *window, const struct rules *rules, uint32_t index)
{
    enum verdict verdict;
    uint64_t raw;
    int is_null;
    switch (record->next) {
    case LENGTH:
        if ((verdict = read_varint(record, window, 32, &raw)))
            return verdict;
        if (raw & 1)
            return BAD_RECORD_LENGTH;
        record->end = window->start + window->position + (raw >> 1);
        window->position++; /* the attributes, which have no meaning yet */
        record->next = TIMESTAMP; /* fall through */
    case TIMESTAMP:
        if ((verdict = read_varint(record, window, 64, &raw)))
            return verdict;
        if ((verdict = read_timestamp(rules, raw, &record->timestamp)))
            return verdict;
        record->next = OFFSET_DELTA; /* fall through */
    case OFFSET_DELTA:
        if ((verdict = read_varint(record, window, 32, &raw)))
            return verdict;
        if (raw != (uint64_t)index << 1)
            return BAD_OFFSET_DELTA;
        record->next = KEY; /* fall through */
    case KEY:
        if ((verdict = skip_nullable(record, window, &is_null)))
            return verdict;
        record->has_key = !is_null;
        record->next = VALUE; /* fall through */
    case VALUE:
        if ((verdict = skip_nullable(record, window, &is_null)))
            return verdict;
        record->next = HEADER_COUNT; /* fall through */
    case HEADER_COUNT:
        if ((verdict = read_varint(record, window, 32, &raw)))
            return verdict;
        if (raw & 1)
            return BAD_HEADER_COUNT;
        record->headers_left = raw >> 1;
        record->headers_end = window->start + window->position + (raw >> 1);
        for (; record->headers_left; record->headers_left--) {
            record->next = HEADER_KEY; /* fall through */
    case HEADER_KEY:
            if ((verdict = skip_nullable(record, window, &is_null)))
                return verdict;
            if (is_null)
                return NULL_HEADER_KEY;
            record->next = HEADER_VALUE; /* fall through */
    case HEADER_VALUE:
            if ((verdict = skip_nullable(record, window, &is_null)))
                return verdict;
        }
        record->next = ENDED; /* fall through */
    case ENDED:
        break;
    }
    if (window->start + window->position != record->end)
        return LENGTH_MISMATCH;
    return window->position > window->size ? TRUNCATED : OK;
}

/* Whether a well-formed record breaks a rule of its topic. */
static inline enum verdict check_rules(const struct rules *rules, const struct record *record)
{
    if (!record->has_key && rules->compacted)
        return NULL_KEY;
    int64_t timestamp = record->timestamp;
    if ((timestamp < rules->timestamp_min || timestamp > rules->timestamp_max) && timestamp != -1)
        return TIMESTAMP_OUT_OF_RANGE;
    return OK;
}

enum { VIOLATIONS_MAX = 1000, RELEASE_GIL_BYTES = 64 * 1024 };

struct violation {
    int32_t index;
    enum verdict verdict;
};

/* A scan of records that come in windows. */
struct scan {
    struct rules rules;
    int32_t record_count;
    int32_t index; /* of the record that is parsed, or the count after the last */
    int64_t newest;
    uint64_t fed;
    uint64_t position;    /* of the next field; may be beyond what was fed after a length was skipped */
    enum verdict verdict; /* on the record at `index` */
    struct record record;
    /* Records that are well formed, but break a rule of their topic. */
    int32_t violation_count;
    struct violation violations[VIOLATIONS_MAX];
};

/* Notes a violation; nobody needs to know more than the first thousand. */
static void note_violation(struct scan *scan, enum verdict verdict)
{
    if (scan->violation_count < VIOLATIONS_MAX)
        scan->violations[scan->violation_count++] = (struct violation){scan->index, verdict};
}

static void scan_window(struct scan *scan, const uint8_t *data, uint64_t size)
{
    uint64_t start = scan->fed;
    scan->fed += size;
    if (scan->verdict || scan->position > scan->fed)
        return;
    struct window window = {data, size, start, scan->position - start};
    struct record record = scan->record; /* a local variable, which the compiler keeps in registers */
    for (; scan->index < scan->record_count; scan->index++) {
        enum verdict verdict = parse_record(&record, &window, &scan->rules, (uint32_t)scan->index);
        if (verdict) {
            scan->verdict = verdict == TRUNCATED ? OK : verdict;
            break;
        }
        if ((verdict = check_rules(&scan->rules, &record)))
            note_violation(scan, verdict);
        if (record.timestamp > scan->newest)
            scan->newest = record.timestamp;
        record = (struct record){0};
    }
    scan->record = record;
    scan->position = start + window.position;
}

/* The verdict on all that was fed: the first record that is malformed, as if all records had been there at once. */
static enum verdict finish_scan(const struct scan *scan, int32_t *index)
{
    *index = scan->index;
    if (scan->index < scan->record_count) {
        if (scan->record.end > scan->fed)
            return BAD_RECORD_LENGTH;
        if (scan->record.headers_end > scan->fed)
            return BAD_HEADER_COUNT;
        return scan->verdict ? scan->verdict : TRUNCATED;
    }
    *index = scan->record_count > 0 ? scan->record_count - 1 : 0;
    return scan->position == scan->fed ? OK : BYTES_LEFT_OVER;
}

struct scanner {
    PyObject_HEAD
    struct scan scan;
    int is_busy; /* another thread scans without the GIL */
};

static int scanner_init(PyObject *self, PyObject *args, PyObject *keywords)
{
    struct scan *scan = &((struct scanner *)self)->scan;
    long long base_timestamp, timestamp_min, timestamp_max;
    int record_count, compacted;
    if (keywords && PyDict_Size(keywords)) {
        PyErr_SetString(PyExc_TypeError, "RecordScanner takes no keyword arguments");
        return -1;
    }
    if (!PyArg_ParseTuple(args, "iLpLL:RecordScanner", &record_count, &base_timestamp, &compacted, &timestamp_min,
                          &timestamp_max))
        return -1;
    memset(scan, 0, sizeof *scan);
    scan->rules = (struct rules){base_timestamp, timestamp_min, timestamp_max, compacted};
    scan->record_count = record_count;
    scan->newest = -1;
    return 0;
}

static int begin_use(struct scanner *scanner)
{
    if (scanner->is_busy) {
        PyErr_SetString(PyExc_RuntimeError, "another thread uses this scanner");
        return -1;
    }
    return 0;
}

static PyObject *scanner_feed(PyObject *self, PyObject *window)
{
    struct scanner *scanner = (struct scanner *)self;
    Py_buffer buffer;
    if (begin_use(scanner) || PyObject_GetBuffer(window, &buffer, PyBUF_SIMPLE))
        return NULL;
    if (buffer.len < RELEASE_GIL_BYTES) {
        scan_window(&scanner->scan, buffer.buf, (uint64_t)buffer.len);
    } else {
        scanner->is_busy = 1;
        Py_BEGIN_ALLOW_THREADS
        scan_window(&scanner->scan, buffer.buf, (uint64_t)buffer.len);
        Py_END_ALLOW_THREADS
        scanner->is_busy = 0;
    }
    PyBuffer_Release(&buffer);
    return Py_NewRef(Py_None);
}

static PyObject *scanner_finish(PyObject *self, PyObject *unused)
{
    struct scanner *scanner = (struct scanner *)self;
    const struct scan *scan = &scanner->scan;
    int32_t index;
    (void)unused;
    if (begin_use(scanner))
        return NULL;
    enum verdict verdict = finish_scan(scan, &index);
    PyObject *violations = PyList_New(scan->violation_count);
    for (int32_t at = 0; violations && at < scan->violation_count; at++) {
        PyObject *violation = Py_BuildValue("(ii)", (int)scan->violations[at].index, (int)scan->violations[at].verdict);
        if (!violation || PyList_SetItem(violations, at, violation)) {
            Py_DECREF(violations);
            return NULL;
        }
    }
    return violations ? Py_BuildValue("(iiLN)", (int)verdict, (int)index, (long long)scan->newest, violations) : NULL;
}

static PyMethodDef scanner_methods[] = {
    {"feed", scanner_feed, METH_O, "Scan the next window of the records."},
    {"finish", scanner_finish, METH_NOARGS, "Say what is wrong with them; see scan.py."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot scanner_slots[] = {
    {Py_tp_doc, (void *)"Judges the plain records of a batch, which come in windows; see scan.py."},
    {Py_tp_init, (void *)scanner_init},
    {Py_tp_methods, scanner_methods},
    {0, NULL},
};

static PyType_Spec scanner_spec = {
    "oncelog.protocol.records._native.RecordScanner", sizeof(struct scanner), 0, Py_TPFLAGS_DEFAULT, scanner_slots,
};

/* -- batch.py ------------------------------------------------------------------------------------------------------ */

static inline uint64_t zigzag(int64_t value)
{
    return ((uint64_t)value << 1) ^ (value < 0 ? UINT64_MAX : 0);
}

static inline int64_t varint_size(int64_t value)
{
    int64_t size = 1;
    for (uint64_t raw = zigzag(value); raw > 0x7f; raw >>= 7)
        size++;
    return size;
}

static inline uint8_t *write_varint(uint8_t *at, int64_t value)
{
    uint64_t raw = zigzag(value);
    for (; raw > 0x7f; raw >>= 7)
        *at++ = (uint8_t)(raw | 0x80);
    *at++ = (uint8_t)raw;
    return at;
}

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
            return Py_NewRef(Py_None);
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

/* -- validation.py ------------------------------------------------------------------------------------------------- */

/* The layout of a header is that of batch.py. */
enum { LOG_OVERHEAD = 12, HEADER_SIZE = 61, MAGIC = 2 };
enum { CODEC_MASK = 0x07, LOG_APPEND_TIME_BIT = 0x08, TRANSACTIONAL_BIT = 0x10, CONTROL_BIT = 0x20 };

static inline uint64_t big_endian(const uint8_t *at, int size_bytes)
{
    uint64_t value = 0;
    for (int index = 0; index < size_bytes; index++)
        value = value << 8 | at[index];
    return value;
}

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
        header = Py_NewRef(Py_None);
    PyBuffer_Release(&buffer);
    return header;
}

/* -- columns.py ---------------------------------------------------------------------------------------------------- */

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

static PyMethodDef methods[] = {
    {"encode_plain_records", encode_plain_records, METH_VARARGS, "Encode records without headers; see batch.py."},
    {"read_plain_batch", read_plain_batch, METH_VARARGS, "Give the header of a faultless plain batch, or None."},
    {"encode_records", encode_records, METH_VARARGS, "Encode rows of columns as records; see columns.py."},
    {"partition_keys", partition_keys, METH_VARARGS, "Give each key its partition, as spark/partitions.py does."},
    {NULL, NULL, 0, NULL},
};

static int add_types(PyObject *module)
{
    PyObject *type = PyType_FromModuleAndSpec(module, &scanner_spec, NULL);
    if (!type)
        return -1;
    int failed = PyModule_AddObjectRef(module, "RecordScanner", type);
    Py_DECREF(type);
    return failed;
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, (void *)add_types}, {0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_native", "Records and batches in C.", 0, methods, slots, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__native(void)
{
    return PyModuleDef_Init(&definition);
}
