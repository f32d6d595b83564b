/* The parser of records, and a scan of the records of a batch that come in windows. */
#ifndef ONCELOG_RECORDS_PARSE_H
#define ONCELOG_RECORDS_PARSE_H

#include "../native.h"

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

#endif
