/* Encoding by plan. */
#ifndef ONCELOG_CODEC_ENCODE_H
#define ONCELOG_CODEC_ENCODE_H

#include "plan.h"

struct writer {
    uint8_t *data;
    size_t size, capacity;
    PyObject *parts; /* the list that gets the encoding, and long records as they are */
    uint8_t first[512];
};

static uint8_t *reserve(struct writer *to, size_t size)
{
    if (to->size + size > to->capacity) {
        size_t capacity = to->capacity * 2 + size;
        uint8_t *data = malloc(capacity);
        if (!data) {
            PyErr_NoMemory();
            return NULL;
        }
        memcpy(data, to->data, to->size);
        if (to->data != to->first)
            free(to->data);
        to->data = data;
        to->capacity = capacity;
    }
    uint8_t *at = to->data + to->size;
    to->size += size;
    return at;
}

static inline enum outcome write_number(struct writer *to, uint64_t value, int size_bytes)
{
    uint8_t *at = reserve(to, (size_t)size_bytes);
    if (!at)
        return RAISED;
    for (int index = size_bytes - 1; index >= 0; index--, value >>= 8)
        at[index] = (uint8_t)value;
    return DONE;
}

static inline enum outcome write_bytes(struct writer *to, const void *bytes, size_t size)
{
    uint8_t *at = reserve(to, size);
    if (!at)
        return RAISED;
    memcpy(at, bytes, size);
    return DONE;
}

static inline enum outcome write_uvarint(struct writer *to, uint64_t value)
{
    for (; value > 0x7f; value >>= 7)
        if (write_number(to, (value & 0x7f) | 0x80, 1))
            return RAISED;
    return write_number(to, value, 1);
}

/* Writes a length or a count, -1 for null. */
static inline enum outcome write_length(struct writer *to, const struct value_plan *plan, int64_t length)
{
    int prefix_size = plan->kind == STRING ? 2 : 4;
    if (length >= (prefix_size == 2 && !plan->compact ? INT16_MAX + 1 : INT32_MAX))
        return REFUSED;
    return plan->compact ? write_uvarint(to, (uint64_t)(length + 1)) : write_number(to, (uint64_t)length, prefix_size);
}

/* After a failed call into Python: the Python executor will say what is wrong. A lack of memory, or an interrupt, is
 * reported from here. */
static enum outcome refused_by_python(void)
{
    if (PyErr_ExceptionMatches(PyExc_MemoryError) || !PyErr_ExceptionMatches(PyExc_Exception))
        return RAISED;
    PyErr_Clear();
    return REFUSED;
}

static enum outcome encode_fixed(struct writer *to, enum kind kind, PyObject *value)
{
    static const long long lowest[] = {0, INT8_MIN, INT16_MIN, 0, INT32_MIN, 0, INT64_MIN};
    static const long long highest[] = {1, INT8_MAX, INT16_MAX, UINT16_MAX, INT32_MAX, UINT32_MAX, INT64_MAX};
    if (kind == UUID) {
        if (!PyBytes_Check(value) || PyBytes_Size(value) != UUID_SIZE)
            return REFUSED;
        return write_bytes(to, PyBytes_AsString(value), UUID_SIZE);
    }
    if (kind == FLOAT64) {
        uint64_t bits;
        double number = PyFloat_AsDouble(value);
        if (number == -1.0 && PyErr_Occurred())
            return refused_by_python();
        memcpy(&bits, &number, sizeof bits);
        return write_number(to, bits, 8);
    }
    if (!PyLong_Check(value))
        return REFUSED;
    long long number = PyLong_AsLongLong(value);
    if (number == -1 && PyErr_Occurred())
        return refused_by_python();
    if (number < lowest[kind] || number > highest[kind])
        return REFUSED;
    return write_number(to, (uint64_t)number, fixed_size[kind]);
}

/* Ends the part that has been written so far. */
static enum outcome end_part(struct writer *to)
{
    if (!to->size)
        return DONE;
    PyObject *part = PyBytes_FromStringAndSize((const char *)to->data, (Py_ssize_t)to->size);
    int failed = !part || PyList_Append(to->parts, part);
    drop(part);
    to->size = 0;
    return failed ? RAISED : DONE;
}

static enum outcome encode_string(struct writer *to, const struct value_plan *plan, PyObject *value)
{
    Py_ssize_t size;
    if (!PyUnicode_Check(value))
        return REFUSED;
    const char *text = PyUnicode_AsUTF8AndSize(value, &size);
    if (!text)
        return refused_by_python();
    enum outcome outcome = write_length(to, plan, size);
    return outcome ? outcome : write_bytes(to, text, (size_t)size);
}

/* Copies short bytes. Long ones become a part of their own, as do records that are stored in a file. */
static enum outcome encode_bytes(struct writer *to, const struct value_plan *plan, PyObject *value)
{
    enum outcome outcome;
    Py_ssize_t size = PyObject_Size(value);
    if (size < 0)
        return refused_by_python();
    if (size <= COPIED_BYTES_MAX && PyObject_CheckBuffer(value)) {
        Py_buffer buffer;
        if (PyObject_GetBuffer(value, &buffer, PyBUF_SIMPLE))
            return refused_by_python();
        outcome = buffer.len == size ? write_length(to, plan, size) : REFUSED;
        if (!outcome && size)
            outcome = write_bytes(to, buffer.buf, (size_t)size);
        PyBuffer_Release(&buffer);
        return outcome;
    }
    if ((outcome = write_length(to, plan, size)) || (outcome = end_part(to)))
        return outcome;
    return PyList_Append(to->parts, value) ? RAISED : DONE;
}

static enum outcome encode_value(struct writer *to, const struct value_plan *plan, PyObject *value);

static enum outcome encode_array(struct writer *to, const struct value_plan *plan, PyObject *value)
{
    enum outcome outcome;
    if (!PyList_Check(value))
        return REFUSED;
    Py_ssize_t count = PyList_Size(value);
    if ((outcome = write_length(to, plan, count)))
        return outcome;
    /* Encoding an item may run Python code, and other threads run too: the list can change, and lose its items. */
    for (Py_ssize_t index = 0; index < count; index++) {
        if (PyList_Size(value) != count)
            return REFUSED;
        PyObject *item = own(PyList_GetItem(value, index));
        outcome = encode_value(to, plan->element, item);
        drop(item);
        if (outcome)
            return outcome;
        yield_gil(index);
    }
    return DONE;
}

static enum outcome encode_struct(struct writer *to, const struct struct_plan *plan, PyObject *object);

/* The caller holds a reference to the value, because Python code may run that drops another one. */
static enum outcome encode_value(struct writer *to, const struct value_plan *plan, PyObject *value)
{
    enum outcome outcome;
    if (plan->kind <= UUID)
        return encode_fixed(to, plan->kind, value);
    if (plan->nullable && value == Py_None)
        return plan->kind == STRUCT ? write_number(to, 0xff, 1) : write_length(to, plan, -1);
    switch (plan->kind) {
    case STRING:
        return encode_string(to, plan, value);
    case ARRAY:
        return encode_array(to, plan, value);
    case STRUCT:
        if (plan->nullable && (outcome = write_number(to, 1, 1)))
            return outcome;
        return encode_struct(to, plan->structure, value);
    default:
        return encode_bytes(to, plan, value);
    }
}

static enum outcome compare(PyObject *value, PyObject *other, int *equal)
{
    *equal = PyObject_RichCompareBool(value, other, Py_EQ);
    return *equal < 0 ? refused_by_python() : DONE;
}

static enum outcome has_default(const struct tagged_plan *tagged, PyObject *value, int *is_default)
{
    if (!tagged->field_defaults)
        return compare(value, tagged->default_value, is_default);
    const struct struct_plan *plan = tagged->value.structure;
    enum outcome outcome = DONE;
    *is_default = value != Py_None;
    if (!*is_default)
        return DONE;
    if (Py_TYPE(value) != plan->type)
        return REFUSED;
    for (Py_ssize_t index = 0; !outcome && *is_default && index < tagged->default_count; index++) {
        const struct member *member = index < plan->field_count ? &plan->fields[index].member
                                                                : &plan->absent[index - plan->field_count].member;
        PyObject *field = get_member(member, value);
        outcome = field ? compare(field, tagged->field_defaults[index], is_default) : refused_by_python();
        drop(field);
    }
    return outcome;
}

static enum outcome encode_tagged_value(struct writer *to, const struct value_plan *plan, PyObject *value)
{
    if (plan->kind == STRUCT && plan->nullable && value == Py_None)
        return write_number(to, 0, 1);
    return encode_value(to, plan, value);
}

/* The size precedes the value and is known only after it, so it is written behind the value and moved. */
static enum outcome encode_tagged(struct writer *to, const struct tagged_plan *tagged, PyObject *value)
{
    enum outcome outcome;
    Py_ssize_t part_count = PyList_Size(to->parts);
    if ((outcome = write_uvarint(to, tagged->tag)))
        return outcome;
    size_t start = to->size;
    if ((outcome = encode_tagged_value(to, &tagged->value, value)))
        return outcome;
    if (PyList_Size(to->parts) != part_count)
        return REFUSED;
    size_t end = to->size, size = end - start;
    if ((outcome = write_uvarint(to, size)))
        return outcome;
    uint8_t prefix[10];
    size_t prefix_size = to->size - end;
    memcpy(prefix, to->data + end, prefix_size);
    memmove(to->data + start + prefix_size, to->data + start, size);
    memcpy(to->data + start, prefix, prefix_size);
    return DONE;
}

static enum outcome encode_tagged_section(struct writer *to, const struct struct_plan *plan, PyObject *object)
{
    enum outcome outcome;
    uint64_t written = 0, count = 0;
    for (Py_ssize_t index = 0; index < plan->tagged_count; index++) {
        int is_default;
        PyObject *value = get_member(&plan->tagged[index].member, object);
        outcome = value ? has_default(&plan->tagged[index], value, &is_default) : refused_by_python();
        drop(value);
        if (outcome)
            return outcome;
        written |= (uint64_t)!is_default << index;
        count += !is_default;
    }
    if ((outcome = write_uvarint(to, count)))
        return outcome;
    for (Py_ssize_t index = 0; written >> index; index++) {
        if (!(written >> index & 1))
            continue;
        PyObject *value = get_member(&plan->tagged[index].member, object);
        outcome = value ? encode_tagged(to, &plan->tagged[index], value) : refused_by_python();
        drop(value);
        if (outcome)
            return outcome;
    }
    return DONE;
}

static enum outcome encode_struct(struct writer *to, const struct struct_plan *plan, PyObject *object)
{
    if (Py_TYPE(object) != plan->type)
        return REFUSED;
    for (Py_ssize_t index = 0; index < plan->field_count; index++) {
        const struct field_plan *field = &plan->fields[index];
        PyObject *value = get_member(&field->member, object);
        enum outcome outcome = value ? encode_value(to, &field->value, value) : refused_by_python();
        drop(value);
        if (outcome)
            return outcome;
    }
    return plan->flexible ? encode_tagged_section(to, plan, object) : DONE;
}

#endif
