/* Zig-zag varints; see varint.py. */
#ifndef ONCELOG_RECORDS_VARINT_H
#define ONCELOG_RECORDS_VARINT_H

#include "../native.h"

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

#endif
