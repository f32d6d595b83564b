/* Decoding by plan. */
#ifndef ONCELOG_CODEC_DECODE_H
#define ONCELOG_CODEC_DECODE_H

#include "plan.h"

struct reader {
    PyObject *source; /* the buffer, of which records are views */
    const uint8_t *data;
    int64_t size;
    int64_t position;
    int64_t budget; /* of elements, for the whole message */
};

static inline enum outcome read_uvarint(struct reader *from, int64_t *result)
{
    uint64_t value = 0;
    for (int shift = 0; shift <= 28; shift += 7) {
        if (from->position >= from->size)
            return REFUSED;
        uint8_t byte = from->data[from->position++];
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *result = (int64_t)value;
            return value > UINT32_MAX ? REFUSED : DONE;
        }
    }
    return REFUSED;
}

/* Reads a length or a count. Null is -1 in both encodings. */
static inline enum outcome read_length(struct reader *from, const struct value_plan *plan, int64_t *length)
{
    if (plan->compact) {
        enum outcome outcome = read_uvarint(from, length);
        --*length;
        return outcome;
    }
    int prefix_size = plan->kind == STRING ? 2 : 4;
    if (from->size - from->position < prefix_size)
        return REFUSED;
    const uint8_t *at = from->data + from->position;
    *length = prefix_size == 2 ? (int16_t)big_endian(at, 2) : (int32_t)big_endian(at, 4);
    from->position += prefix_size;
    return *length < -1 ? REFUSED : DONE;
}

static inline PyObject *fixed_object(enum kind kind, const uint8_t *at)
{
    switch (kind) {
    case BOOL:
        return PyBool_FromLong(*at);
    case INT8:
        return PyLong_FromLong((int8_t)*at);
    case INT16:
        return PyLong_FromLong((int16_t)big_endian(at, 2));
    case UINT16:
        return PyLong_FromLong((long)big_endian(at, 2));
    case INT32:
        return PyLong_FromLong((int32_t)big_endian(at, 4));
    case UINT32:
        return PyLong_FromLongLong((long long)big_endian(at, 4));
    case INT64:
        return PyLong_FromLongLong((long long)big_endian(at, 8));
    case FLOAT64: {
        uint64_t bits = big_endian(at, 8);
        double number;
        memcpy(&number, &bits, sizeof number);
        return PyFloat_FromDouble(number);
    }
    default:
        return PyBytes_FromStringAndSize((const char *)at, UUID_SIZE);
    }
}

/* A view of a part of the buffer, as slicing a memoryview of it gives. */
static PyObject *view_of(PyObject *source, int64_t from, int64_t to)
{
    PyObject *view = NULL;
    PyObject *whole = PyMemoryView_Check(source) ? own(source) : PyMemoryView_FromObject(source);
    PyObject *start = PyLong_FromLongLong(from), *stop = PyLong_FromLongLong(to);
    PyObject *range = start && stop ? PySlice_New(start, stop, NULL) : NULL;
    if (whole && range)
        view = PyObject_GetItem(whole, range);
    drop(whole);
    drop(range);
    drop(start);
    drop(stop);
    return view;
}

static enum outcome decode_string(const char *at, int64_t length, PyObject **result)
{
    if (length > STRING_SIZE_MAX)
        return REFUSED;
    if ((*result = PyUnicode_DecodeUTF8(at, (Py_ssize_t)length, NULL)))
        return DONE;
    if (!PyErr_ExceptionMatches(PyExc_UnicodeDecodeError))
        return RAISED;
    PyErr_Clear();
    return REFUSED;
}

static enum outcome decode_sized(struct reader *from, const struct value_plan *plan, PyObject **result)
{
    int64_t length;
    if (read_length(from, plan, &length))
        return REFUSED;
    if (length < 0) {
        *result = own(Py_None);
        return plan->nullable ? DONE : REFUSED;
    }
    if (length > from->size - from->position)
        return REFUSED;
    int64_t start = from->position;
    const char *at = (const char *)from->data + start;
    from->position += length;
    if (plan->kind == STRING)
        return decode_string(at, length, result);
    *result = plan->kind == BYTES ? PyBytes_FromStringAndSize(at, (Py_ssize_t)length)
                                  : view_of(from->source, start, from->position);
    return *result ? DONE : RAISED;
}

static enum outcome decode_value(struct reader *from, const struct value_plan *plan, PyObject **result);

static enum outcome decode_array(struct reader *from, const struct value_plan *plan, PyObject **result)
{
    int64_t count;
    if (read_length(from, plan, &count))
        return REFUSED;
    if (count < 0) {
        *result = own(Py_None);
        return plan->nullable ? DONE : REFUSED;
    }
    if (count * plan->element->size_min > from->size - from->position)
        return REFUSED;
    from->budget -= count;
    if (from->budget < 0)
        return OVER_BUDGET;
    if (!(*result = PyList_New((Py_ssize_t)count)))
        return RAISED;
    for (int64_t index = 0; index < count; index++) {
        PyObject *item = NULL;
        enum outcome outcome = decode_value(from, plan->element, &item);
        if (outcome) {
            drop(item);
            return outcome;
        }
        PyList_SetItem(*result, (Py_ssize_t)index, item);
        yield_gil(index);
    }
    return DONE;
}

static enum outcome decode_struct(struct reader *from, const struct struct_plan *plan, PyObject **result);

/* A nullable struct is preceded by a byte: 1, or -1 for null. In a tagged field null is 0. */
static enum outcome decode_nested(struct reader *from, const struct value_plan *plan, int is_tagged, PyObject **result)
{
    if (plan->nullable) {
        if (from->position >= from->size)
            return REFUSED;
        uint8_t present = from->data[from->position++];
        if (is_tagged ? present == 0 : present > 127) {
            *result = own(Py_None);
            return DONE;
        }
    }
    return decode_struct(from, plan->structure, result);
}

/* Whatever the outcome, `*result` is NULL or belongs to the caller. */
static enum outcome decode_value(struct reader *from, const struct value_plan *plan, PyObject **result)
{
    switch (plan->kind) {
    case STRING:
    case BYTES:
    case RECORDS:
        return decode_sized(from, plan, result);
    case ARRAY:
        return decode_array(from, plan, result);
    case STRUCT:
        return decode_nested(from, plan, 0, result);
    default:
        if (from->size - from->position < fixed_size[plan->kind])
            return REFUSED;
        *result = fixed_object(plan->kind, from->data + from->position);
        from->position += fixed_size[plan->kind];
        return *result ? DONE : RAISED;
    }
}

static inline enum outcome set_decoded(const struct member *member, PyObject *object, enum outcome outcome, PyObject *value)
{
    if (!outcome)
        return set_member(member, object, value);
    drop(value);
    return outcome;
}

/* Decodes the tagged field of that tag if the plan knows it, and moves to the end of the field. */
static enum outcome decode_tagged(struct reader *from, const struct struct_plan *plan, PyObject *object, int64_t tag, int64_t end)
{
    Py_ssize_t index = 0;
    while (index < plan->tagged_count && plan->tagged[index].tag != tag)
        index++;
    if (index == plan->tagged_count) {
        from->position = end;
        return DONE;
    }
    const struct tagged_plan *tagged = &plan->tagged[index];
    PyObject *value = NULL;
    enum outcome outcome = tagged->value.kind == STRUCT ? decode_nested(from, &tagged->value, 1, &value)
                                                        : decode_value(from, &tagged->value, &value);
    if (!outcome && from->position != end)
        outcome = REFUSED;
    return set_decoded(&tagged->member, object, outcome, value);
}

static enum outcome decode_tagged_section(struct reader *from, const struct struct_plan *plan, PyObject *object)
{
    enum outcome outcome;
    int64_t count, tag, size, last = -1;
    if ((outcome = read_uvarint(from, &count)) || count == 0)
        return outcome;
    if (count > UNKNOWN_TAGS_MAX + plan->tagged_count)
        return REFUSED;
    for (int64_t index = 0; index < count; index++) {
        if (read_uvarint(from, &tag) || tag <= last || read_uvarint(from, &size) || size > from->size - from->position)
            return REFUSED;
        last = tag;
        if ((outcome = decode_tagged(from, plan, object, tag, from->position + size)))
            return outcome;
    }
    return DONE;
}

static enum outcome decode_struct(struct reader *from, const struct struct_plan *plan, PyObject **result)
{
    enum outcome outcome = DONE;
    PyObject *object = *result = PyType_GenericAlloc(plan->type, 0);
    if (!object)
        return RAISED;
    for (Py_ssize_t index = 0; !outcome && index < plan->field_count; index++) {
        const struct field_plan *field = &plan->fields[index];
        PyObject *value = NULL;
        outcome = decode_value(from, &field->value, &value);
        outcome = set_decoded(&field->member, object, outcome, value);
    }
    for (Py_ssize_t index = 0; !outcome && index < plan->absent_count; index++) {
        const struct absent_plan *absent = &plan->absent[index];
        outcome = set_member(&absent->member, object, absent->factory ? PyObject_CallNoArgs(absent->factory) : own(absent->constant));
    }
    return outcome || !plan->flexible ? outcome : decode_tagged_section(from, plan, object);
}

#endif
