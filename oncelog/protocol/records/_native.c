/* Walks the plain records of a batch and says whether a broker may store them: the twin of scan.py.
 *
 * The two accept the same batches and give the same verdict for the others; the tests run over both. Every read is
 * bounded by the end of the data, lengths are only added to a 64-bit position, and nothing is written or kept, so the
 * worst that hostile bytes can do is to get a verdict.
 *
 * Only the limited API of Python 3.11 is used, so one binary serves all later versions.
 */
#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>

/* The numbers are those of scan.py. */
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

struct cursor {
    const uint8_t *data;
    uint64_t size;
    uint64_t position; /* may be beyond size after a length was skipped; the next read notices */
};

/* Reads an unsigned varint of at most `bits` (32 or 64), before zig-zag is undone. */
static inline enum verdict read_raw(struct cursor *at, unsigned bits, uint64_t *raw)
{
    if (at->position >= at->size)
        return TRUNCATED;
    uint64_t value = at->data[at->position++];
    if (value < 0x80) {
        *raw = value;
        return OK;
    }
    value &= 0x7f;
    for (unsigned shift = 7;; shift += 7) {
        if (at->position >= at->size)
            return TRUNCATED;
        uint8_t byte = at->data[at->position++];
        if (shift + 7 > bits && byte >> (bits - shift))
            return BAD_VARINT;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *raw = value;
            return OK;
        }
    }
}

/* Skips bytes with their length before them; null is told apart for the caller. */
static inline enum verdict skip_nullable(struct cursor *at, int *is_null)
{
    uint64_t raw;
    enum verdict verdict = read_raw(at, 32, &raw);
    if (verdict)
        return verdict;
    *is_null = raw == 1;
    if (raw & 1)
        return raw == 1 ? OK : BAD_FIELD_LENGTH;
    at->position += raw >> 1;
    return OK;
}

static enum verdict skip_headers(struct cursor *at)
{
    uint64_t raw;
    int is_null;
    enum verdict verdict = read_raw(at, 32, &raw);
    if (verdict)
        return verdict;
    if (raw & 1 || raw >> 1 > at->size - at->position)
        return BAD_HEADER_COUNT;
    for (uint64_t left = raw >> 1; left > 0; left--) {
        if ((verdict = skip_nullable(at, &is_null)))
            return verdict;
        if (is_null)
            return NULL_HEADER_KEY;
        if ((verdict = skip_nullable(at, &is_null)))
            return verdict;
    }
    return OK;
}

struct rules {
    int64_t base_timestamp;
    int64_t timestamp_min;
    int64_t timestamp_max;
    int compacted;
};

static inline enum verdict check_timestamp(const struct rules *rules, uint64_t raw, int64_t *newest)
{
    int64_t delta = (int64_t)((raw >> 1) ^ (0 - (raw & 1)));
    if (delta > 0 ? rules->base_timestamp > INT64_MAX - delta : rules->base_timestamp < INT64_MIN - delta)
        return TIMESTAMP_OVERFLOW;
    int64_t timestamp = rules->base_timestamp + delta;
    if ((timestamp < rules->timestamp_min || timestamp > rules->timestamp_max) && timestamp != -1)
        return TIMESTAMP_OUT_OF_RANGE;
    if (timestamp > *newest)
        *newest = timestamp;
    return OK;
}

static inline enum verdict scan_record(struct cursor *at, const struct rules *rules, uint32_t index, int64_t *newest)
{
    uint64_t raw;
    int is_null;
    enum verdict verdict = read_raw(at, 32, &raw);
    if (verdict)
        return verdict;
    if (raw & 1 || raw >> 1 > at->size - at->position)
        return BAD_RECORD_LENGTH;
    uint64_t end = at->position + (raw >> 1);

    at->position++; /* the attributes, which have no meaning yet */
    if ((verdict = read_raw(at, 64, &raw)) || (verdict = check_timestamp(rules, raw, newest)))
        return verdict;
    if ((verdict = read_raw(at, 32, &raw)))
        return verdict;
    if (raw != (uint64_t)index << 1)
        return BAD_OFFSET_DELTA;
    if ((verdict = skip_nullable(at, &is_null)))
        return verdict;
    if (is_null && rules->compacted)
        return NULL_KEY;
    if ((verdict = skip_nullable(at, &is_null)) || (verdict = skip_headers(at)))
        return verdict;
    return at->position == end ? OK : LENGTH_MISMATCH;
}

static PyObject *scan_records(PyObject *module, PyObject *args)
{
    Py_buffer body;
    int record_count;
    long long base_timestamp, timestamp_min, timestamp_max;
    struct rules rules;
    (void)module;
    if (!PyArg_ParseTuple(args, "y*iLpLL:scan_records", &body, &record_count, &base_timestamp, &rules.compacted,
                          &timestamp_min, &timestamp_max))
        return NULL;
    rules.base_timestamp = base_timestamp;
    rules.timestamp_min = timestamp_min;
    rules.timestamp_max = timestamp_max;

    struct cursor at = {body.buf, (uint64_t)body.len, 0};
    enum verdict verdict = OK;
    int64_t newest = -1;
    int index = 0;
    for (int next = 0; next < record_count && verdict == OK; next++) {
        index = next;
        verdict = scan_record(&at, &rules, (uint32_t)index, &newest);
    }
    if (verdict == OK && at.position != at.size)
        verdict = BYTES_LEFT_OVER;
    PyBuffer_Release(&body);
    return Py_BuildValue("(iiL)", (int)verdict, index, (long long)newest);
}

static PyMethodDef methods[] = {
    {"scan_records", scan_records, METH_VARARGS, "Judge the plain records of a batch; see scan.py."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_native", "The C twin of scan.py.", 0, methods, NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__native(void)
{
    return PyModuleDef_Init(&definition);
}
