/* The C executor of the plans that plan.py makes.
 *
 * It decodes every valid message and encodes every message whose values have the declared types. Whatever it refuses
 * (malformed bytes, values of other types or out of range) goes to the Python executor, which raises the error, so each
 * error is worded once. Only a message over its budget of elements is refused here, because the Python executor would
 * decode all elements up to the limit first.
 *
 * Every read is checked against the end of the buffer. Before an array is allocated, its count is checked against the
 * bytes that are left and against the message's budget.
 *
 * A long array releases the GIL now and then, so that a thread can process a large message beside the event loop.
 *
 * The fields of a message are slots. A plan keeps the member descriptor of each one and calls its get and set functions
 * directly, which skips the attribute lookup.
 *
 * This file uses only the limited API of Python 3.11, so one binary serves all later versions.
 */
#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum kind { BOOL, INT8, INT16, UINT16, INT32, UINT32, INT64, FLOAT64, UUID, STRING, BYTES, RECORDS, ARRAY, STRUCT, KIND_COUNT };

/* ValuePlan.kind: a code of Python's struct module for the fixed-width types. */
static const char *const kind_names[] = {"?", "b", "h", "H", "i", "I", "q", "d", "16s", "string", "bytes", "records", "array", "struct"};

/* The first two are those of primitives.py. */
enum { STRING_SIZE_MAX = 0x7FFF, UNKNOWN_TAGS_MAX = 64, TAGGED_FIELDS_MAX = 64, UUID_SIZE = 16, COPIED_BYTES_MAX = 4096 };

static const int fixed_size[] = {1, 1, 2, 2, 4, 4, 8, 8, UUID_SIZE};

/* These call the functions, not the macros: later interpreters do not count the references of immortal objects such as
 * None, but the macros of 3.11 would. */
static inline PyObject *own(PyObject *object)
{
    Py_IncRef(object);
    return object;
}

/* NULL is fine. */
static inline void drop(void *object)
{
    Py_DecRef(object);
}

/* RAISED means that Python has an exception set. */
enum outcome { DONE, REFUSED, RAISED, OVER_BUDGET };

/* So many elements take about 0.1 ms. */
enum { ELEMENTS_PER_TURN = 1024 };

static inline void yield_gil(int64_t index)
{
    if (index % ELEMENTS_PER_TURN == ELEMENTS_PER_TURN - 1)
        PyEval_RestoreThread(PyEval_SaveThread());
}

/* -- plans --------------------------------------------------------------------------------------------------------- */

/* A slot of a class, reached through its member descriptor. */
struct member {
    PyObject *descriptor;
    descrgetfunc get;
    descrsetfunc set;
};

struct struct_plan;

struct value_plan {
    enum kind kind;
    int nullable;
    int compact;      /* the length is a varint */
    int64_t size_min; /* the fewest bytes that a value takes */
    struct value_plan *element;
    struct struct_plan *structure;
};

struct field_plan {
    struct member member;
    struct value_plan value;
};

/* A field that is not in the body of this version. */
struct absent_plan {
    struct member member;
    PyObject *factory; /* NULL if the constant is the default */
    PyObject *constant;
};

struct tagged_plan {
    struct member member;
    struct value_plan value;
    uint32_t tag;
    PyObject *default_value;
    PyObject **field_defaults; /* of a struct whose default is not null: fields first, then absent fields */
    Py_ssize_t default_count;
};

struct struct_plan {
    PyTypeObject *type;
    int flexible;
    Py_ssize_t field_count, absent_count, tagged_count;
    struct field_plan *fields;
    struct absent_plan *absent;
    struct tagged_plan *tagged;
};

static void free_struct_plan(struct struct_plan *plan);

static void free_value_plan(struct value_plan *plan)
{
    if (plan->element) {
        free_value_plan(plan->element);
        free(plan->element);
    }
    free_struct_plan(plan->structure);
}

static void free_struct_plan(struct struct_plan *plan)
{
    if (!plan)
        return;
    for (Py_ssize_t index = 0; index < plan->field_count; index++) {
        drop(plan->fields[index].member.descriptor);
        free_value_plan(&plan->fields[index].value);
    }
    for (Py_ssize_t index = 0; index < plan->absent_count; index++) {
        drop(plan->absent[index].member.descriptor);
        drop(plan->absent[index].factory);
        drop(plan->absent[index].constant);
    }
    for (Py_ssize_t index = 0; index < plan->tagged_count; index++) {
        struct tagged_plan *tagged = &plan->tagged[index];
        drop(tagged->member.descriptor);
        drop(tagged->default_value);
        for (Py_ssize_t each = 0; each < tagged->default_count; each++)
            drop(tagged->field_defaults[each]);
        free(tagged->field_defaults);
        free_value_plan(&tagged->value);
    }
    drop(plan->type);
    free(plan->fields);
    free(plan->absent);
    free(plan->tagged);
    free(plan);
}

/* `*count` says how many there are, and stays 0 if there is no memory for them. */
static void *zeroed(Py_ssize_t wanted, size_t size, Py_ssize_t *count)
{
    void *memory = calloc(wanted ? (size_t)wanted : 1, size);
    if (memory)
        *count = wanted;
    else
        PyErr_NoMemory();
    return memory;
}

static int fill_member(struct member *member, PyTypeObject *type, PyObject *name)
{
    if (!(member->descriptor = PyObject_GetAttr((PyObject *)type, name)))
        return -1;
    PyTypeObject *kind = Py_TYPE(member->descriptor);
    if (kind == &PyMemberDescr_Type) {
        member->get = (descrgetfunc)PyType_GetSlot(kind, Py_tp_descr_get);
        member->set = (descrsetfunc)PyType_GetSlot(kind, Py_tp_descr_set);
    }
    if (member->get && member->set)
        return 0;
    PyErr_Format(PyExc_TypeError, "%R of %R is not a slot", name, type);
    return -1;
}

/* A new reference, or NULL with AttributeError if the field is not set. */
static inline PyObject *get_member(const struct member *member, PyObject *object)
{
    return member->get(member->descriptor, object, (PyObject *)Py_TYPE(object));
}

/* Takes over the reference to the value. */
static inline enum outcome set_member(const struct member *member, PyObject *object, PyObject *value)
{
    int failed = !value || member->set(member->descriptor, object, value);
    drop(value);
    return failed ? RAISED : DONE;
}

static struct struct_plan *make_struct_plan(PyObject *source);

static int fill_value(struct value_plan *plan, PyObject *source)
{
    const char *kind;
    PyObject *element, *structure;
    long long size_min;
    if (!PyArg_ParseTuple(source, "sppLOO;a ValuePlan", &kind, &plan->nullable, &plan->compact, &size_min, &element, &structure))
        return -1;
    while (plan->kind < KIND_COUNT && strcmp(kind, kind_names[plan->kind]))
        plan->kind++;
    plan->size_min = size_min;
    if (plan->kind == ARRAY && PyTuple_Check(element)) {
        Py_ssize_t count = 0;
        if (!(plan->element = zeroed(1, sizeof *plan->element, &count)))
            return -1;
        return fill_value(plan->element, element);
    }
    if (plan->kind == STRUCT && PyTuple_Check(structure))
        return (plan->structure = make_struct_plan(structure)) ? 0 : -1;
    if (plan->kind < ARRAY)
        return 0;
    PyErr_Format(PyExc_ValueError, "%s is not a kind of value, or lacks its parts", kind);
    return -1;
}

static int fill_field(struct field_plan *plan, PyTypeObject *type, PyObject *source)
{
    PyObject *name, *value;
    if (!PyArg_ParseTuple(source, "UO!;a FieldPlan", &name, &PyTuple_Type, &value))
        return -1;
    return fill_member(&plan->member, type, name) || fill_value(&plan->value, value);
}

static int fill_absent(struct absent_plan *plan, PyTypeObject *type, PyObject *source)
{
    PyObject *name, *factory, *constant;
    if (!PyArg_ParseTuple(source, "UOO;an AbsentPlan", &name, &factory, &constant))
        return -1;
    plan->factory = factory == Py_None ? NULL : own(factory);
    plan->constant = own(constant);
    return fill_member(&plan->member, type, name);
}

/* Keeps the default of each field of the struct, to compare them one by one. */
static int fill_field_defaults(struct tagged_plan *tagged)
{
    const struct struct_plan *plan = tagged->value.structure;
    Py_ssize_t count = plan->field_count + plan->absent_count;
    if (!(tagged->field_defaults = zeroed(count, sizeof *tagged->field_defaults, &tagged->default_count)))
        return -1;
    for (Py_ssize_t index = 0; index < count; index++) {
        const struct member *member = index < plan->field_count ? &plan->fields[index].member
                                                                : &plan->absent[index - plan->field_count].member;
        if (!(tagged->field_defaults[index] = get_member(member, tagged->default_value)))
            return -1;
    }
    return 0;
}

static int fill_tagged(struct tagged_plan *plan, PyTypeObject *type, PyObject *source)
{
    PyObject *name, *value, *default_value;
    unsigned int tag;
    if (!PyArg_ParseTuple(source, "UO!IO;a TaggedPlan", &name, &PyTuple_Type, &value, &tag, &default_value))
        return -1;
    plan->tag = tag;
    plan->default_value = own(default_value);
    if (fill_member(&plan->member, type, name) || fill_value(&plan->value, value))
        return -1;
    return plan->value.kind == STRUCT && default_value != Py_None ? fill_field_defaults(plan) : 0;
}

static struct struct_plan *make_struct_plan(PyObject *source)
{
    PyObject *type, *fields, *absent, *tagged;
    Py_ssize_t count = 0;
    struct struct_plan *plan = zeroed(1, sizeof *plan, &count);
    if (!plan)
        return NULL;
    if (!PyArg_ParseTuple(source, "O!pO!O!O!;a StructPlan", &PyType_Type, &type, &plan->flexible, &PyTuple_Type, &fields,
                          &PyTuple_Type, &absent, &PyTuple_Type, &tagged))
        goto failed;
    plan->type = (PyTypeObject *)own(type);
    if (PyTuple_Size(tagged) > TAGGED_FIELDS_MAX) {
        PyErr_SetString(PyExc_ValueError, "a struct has too many tagged fields");
        goto failed;
    }
    if (!(plan->fields = zeroed(PyTuple_Size(fields), sizeof *plan->fields, &plan->field_count)) ||
        !(plan->absent = zeroed(PyTuple_Size(absent), sizeof *plan->absent, &plan->absent_count)) ||
        !(plan->tagged = zeroed(PyTuple_Size(tagged), sizeof *plan->tagged, &plan->tagged_count)))
        goto failed;
    for (Py_ssize_t index = 0; index < plan->field_count; index++)
        if (fill_field(&plan->fields[index], plan->type, PyTuple_GetItem(fields, index)))
            goto failed;
    for (Py_ssize_t index = 0; index < plan->absent_count; index++)
        if (fill_absent(&plan->absent[index], plan->type, PyTuple_GetItem(absent, index)))
            goto failed;
    for (Py_ssize_t index = 0; index < plan->tagged_count; index++)
        if (fill_tagged(&plan->tagged[index], plan->type, PyTuple_GetItem(tagged, index)))
            goto failed;
    return plan;
failed:
    free_struct_plan(plan);
    return NULL;
}

/* -- decoding ------------------------------------------------------------------------------------------------------ */

struct reader {
    PyObject *source; /* the buffer, of which records are views */
    const uint8_t *data;
    int64_t size;
    int64_t position;
    int64_t budget; /* of elements, for the whole message */
};

static inline uint64_t big_endian(const uint8_t *at, int size_bytes)
{
    uint64_t value = 0;
    for (int index = 0; index < size_bytes; index++)
        value = value << 8 | at[index];
    return value;
}

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

/* -- encoding ------------------------------------------------------------------------------------------------------ */

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

/* -- the executor -------------------------------------------------------------------------------------------------- */

struct executor {
    PyObject_HEAD
    struct struct_plan *plan;
    PyObject *fallback;    /* the Python executor */
    PyObject *over_budget; /* the exception */
};

static PyObject *new_executor(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    PyObject *plan, *fallback, *over_budget;
    (void)keywords;
    if (!PyArg_ParseTuple(args, "O!OO!:NativeExecutor", &PyTuple_Type, &plan, &fallback, &PyType_Type, &over_budget))
        return NULL;
    struct executor *executor = (struct executor *)PyType_GenericAlloc(type, 0);
    if (!executor)
        return NULL;
    executor->fallback = own(fallback);
    executor->over_budget = own(over_budget);
    if (!(executor->plan = make_struct_plan(plan))) {
        drop(executor);
        return NULL;
    }
    return (PyObject *)executor;
}

static void free_executor(PyObject *self)
{
    struct executor *executor = (struct executor *)self;
    PyTypeObject *type = Py_TYPE(self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    free_struct_plan(executor->plan);
    drop(executor->fallback);
    drop(executor->over_budget);
    release(self);
    drop(type);
}

static int check_argument_count(const char *method, Py_ssize_t count, Py_ssize_t expected)
{
    if (count == expected)
        return 0;
    PyErr_Format(PyExc_TypeError, "%s takes %zd arguments, not %zd", method, expected, count);
    return -1;
}

/* Takes (buffer, position, elements_max). */
static enum outcome run_decoder(PyObject *self, PyObject *const *args, PyObject **message, Py_ssize_t *end)
{
    struct executor *executor = (struct executor *)self;
    Py_buffer buffer;
    Py_ssize_t position = PyLong_AsSsize_t(args[1]);
    if (position == -1 && PyErr_Occurred())
        return RAISED;
    Py_ssize_t elements_max = PyLong_AsSsize_t(args[2]);
    if (elements_max == -1 && PyErr_Occurred())
        return RAISED;
    if (PyObject_GetBuffer(args[0], &buffer, PyBUF_SIMPLE))
        return RAISED;
    struct reader from = {args[0], buffer.buf, buffer.len, position, elements_max};
    enum outcome outcome = REFUSED;
    if (position >= 0 && position <= buffer.len)
        outcome = decode_struct(&from, executor->plan, message);
    PyBuffer_Release(&buffer);
    *end = (Py_ssize_t)from.position;
    if (outcome)
        {
        drop(*message);
        *message = NULL;
    }
    if (outcome == OVER_BUDGET)
        PyErr_SetNone(executor->over_budget);
    return outcome == OVER_BUDGET ? RAISED : outcome;
}

static PyObject *decode(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    PyObject *message = NULL;
    Py_ssize_t end;
    if (check_argument_count("decode", count, 3))
        return NULL;
    if (run_decoder(self, args, &message, &end) != REFUSED)
        return message;
    return PyObject_CallMethod(((struct executor *)self)->fallback, "decode", "OOO", args[0], args[1], args[2]);
}

static PyObject *decode_from(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    PyObject *message = NULL;
    Py_ssize_t end;
    if (check_argument_count("decode_from", count, 3))
        return NULL;
    if (run_decoder(self, args, &message, &end) != REFUSED)
        return message ? Py_BuildValue("(Nn)", message, end) : NULL;
    return PyObject_CallMethod(((struct executor *)self)->fallback, "decode_from", "OOO", args[0], args[1], args[2]);
}

/* Takes (message, list of parts). */
static PyObject *encode(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    struct executor *executor = (struct executor *)self;
    struct writer to;
    if (check_argument_count("encode", count, 2))
        return NULL;
    if (!PyList_Check(args[1])) {
        PyErr_SetString(PyExc_TypeError, "parts is a list");
        return NULL;
    }
    to.data = to.first;
    to.size = 0;
    to.capacity = sizeof to.first;
    to.parts = args[1];
    Py_ssize_t before = PyList_Size(to.parts);
    enum outcome outcome = encode_struct(&to, executor->plan, args[0]);
    if (outcome == DONE)
        outcome = end_part(&to);
    if (to.data != to.first)
        free(to.data);
    if (outcome == DONE)
        return own(Py_None);
    if (outcome == RAISED || PyList_SetSlice(to.parts, before, PyList_Size(to.parts), NULL))
        return NULL;
    return PyObject_CallMethod(executor->fallback, "encode", "OO", args[0], args[1]);
}

static PyMethodDef executor_methods[] = {
    {"decode", (PyCFunction)(void (*)(void))decode, METH_FASTCALL, "Decode the message at a position."},
    {"decode_from", (PyCFunction)(void (*)(void))decode_from, METH_FASTCALL, "Give the message and the position behind it."},
    {"encode", (PyCFunction)(void (*)(void))encode, METH_FASTCALL, "Append the encoding of a message to a list."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot executor_slots[] = {
    {Py_tp_new, new_executor},
    {Py_tp_dealloc, free_executor},
    {Py_tp_methods, executor_methods},
    {Py_tp_doc, "Carries out the plan of one version of a message."},
    {0, NULL},
};

static PyType_Spec executor_spec = {
    "oncelog.protocol.codec._native.NativeExecutor", sizeof(struct executor), 0, Py_TPFLAGS_DEFAULT, executor_slots,
};

static int add_executor(PyObject *module)
{
    PyObject *type = PyType_FromModuleAndSpec(module, &executor_spec, NULL);
    int failed = !type || PyModule_AddObjectRef(module, "NativeExecutor", type);
    drop(type);
    return failed ? -1 : 0;
}

static PyModuleDef_Slot module_slots[] = {{Py_mod_exec, add_executor}, {0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_native", "The C executor of codecs; see plan.py.", 0, NULL, module_slots, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__native(void)
{
    return PyModuleDef_Init(&definition);
}
