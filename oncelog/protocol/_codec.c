/* Decodes and encodes messages by the plans that plan.py makes of their declarations: the short way of compiler.py.
 *
 * A plan knows the usual shape of one version of a message. What is not of that shape (bytes that are no such message,
 * tagged fields to decode, values of other types or out of range) is left alone: the answer is None, and the
 * generated Python code does it the long way or says what is wrong. So nothing here has a word to say about errors.
 *
 * Every read is held against the end of the buffer, and a count against the bytes that are left and a budget for the
 * whole message before anything is allocated for it, as in the generated code. A message over its budget is refused.
 *
 * A long array gives up the GIL now and then, so that a thread can decode or encode a large message beside the event loop.
 *
 * The fields of a message are slots. A plan finds out once where in an object each of them lies, by looking for what it
 * has put there, and then reads and writes them in place, which is a tenth of the price of asking for an attribute.
 *
 * Only the limited API of Python 3.11 is used, so one binary serves all later versions.
 */
#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* The numbers are those of plan.py. */
enum kind { BOOL, INT8, INT16, UINT16, INT32, UINT32, INT64, FLOAT64, UUID, STRING, BYTES, RECORDS, ARRAY, STRUCT };
enum making { CONSTANT, NEW_LIST, NEW_STRUCT };
/* The longest string is that of codegen_decode.py. */
enum { UUID_SIZE = 16, STRING_SIZE_MAX = 0x7FFF, COPIED_BYTES_MAX = 4096 };

static const int fixed_size[] = {1, 1, 2, 2, 4, 4, 8, 8, UUID_SIZE};

/* By the function, which follows the rules of the interpreter that runs: to later ones some objects are immortal, and a
 * binary that was built with the headers of 3.11 would count them up for ever. */
static inline PyObject *own(PyObject *object)
{
    Py_IncRef(object);
    return object;
}

/* What came of a step: it is done, it is for the long way, Python has raised (for want of memory), or the message has
 * more elements than its budget. */
enum outcome { DONE, UNUSUAL, RAISED, OVER_BUDGET };

/* After this many elements of an array; that takes about 0.1 ms. */
enum { ELEMENTS_PER_TURN = 1024 };

static inline void give_way(int64_t index)
{
    if (index % ELEMENTS_PER_TURN == ELEMENTS_PER_TURN - 1)
        PyEval_RestoreThread(PyEval_SaveThread());
}

struct layout;

struct value {
    enum kind kind;
    int nullable;
    int compact;          /* its length is a varint */
    int64_t element_size; /* of an array: the fewest bytes that one element takes */
    struct value *element;
    struct layout *layout;
};

struct field {
    Py_ssize_t slot;
    struct value value;
};

/* A field that the body of this version does not have. */
struct absent {
    Py_ssize_t slot;
    enum making making;
    PyObject *source; /* the constant, or the class */
};

struct tagged {
    Py_ssize_t slot;
    int64_t tag;
    struct value value;
    PyObject *standard; /* what it is when it is not written */
    int by_field;       /* a struct, compared field by field */
};

struct layout {
    PyTypeObject *type;
    int flexible;
    Py_ssize_t field_count, absent_count, tagged_count, slot_count;
    struct field *fields;
    struct absent *absents;
    struct tagged *tagged;
    Py_ssize_t *slots; /* all of them */
};

/* -- making a plan ------------------------------------------------------------------------------------------------- */

static void free_layout(struct layout *layout);

static void free_value(struct value *value)
{
    if (value->element) {
        free_value(value->element);
        free(value->element);
    }
    free_layout(value->layout);
}

static void free_layout(struct layout *layout)
{
    if (!layout)
        return;
    for (Py_ssize_t index = 0; layout->fields && index < layout->field_count; index++)
        free_value(&layout->fields[index].value);
    for (Py_ssize_t index = 0; layout->absents && index < layout->absent_count; index++)
        Py_XDECREF(layout->absents[index].source);
    for (Py_ssize_t index = 0; layout->tagged && index < layout->tagged_count; index++) {
        Py_XDECREF(layout->tagged[index].standard);
        free_value(&layout->tagged[index].value);
    }
    Py_XDECREF((PyObject *)layout->type);
    free(layout->fields);
    free(layout->absents);
    free(layout->tagged);
    free(layout->slots);
    free(layout);
}

static void *zeroed(Py_ssize_t count, size_t size)
{
    void *memory = calloc(count ? (size_t)count : 1, size);
    if (!memory)
        PyErr_NoMemory();
    return memory;
}

/* Where in an object of this type the slot of that name lies: puts something there and looks for it. */
static Py_ssize_t find_slot(PyTypeObject *type, PyObject *name)
{
    Py_ssize_t found = -1;
    PyObject *basic_size = PyObject_GetAttrString((PyObject *)type, "__basicsize__");
    Py_ssize_t size = basic_size ? PyLong_AsSsize_t(basic_size) : -1;
    PyObject *object = size >= 0 ? PyType_GenericAlloc(type, 0) : NULL;
    PyObject *mark = object ? PyList_New(0) : NULL;
    if (mark && PyObject_SetAttr(object, name, mark) == 0) {
        for (Py_ssize_t at = sizeof(PyObject); at + (Py_ssize_t)sizeof mark <= size; at += sizeof mark)
            if (!memcmp((char *)object + at, &mark, sizeof mark))
                found = at;
        if (found < 0)
            PyErr_Format(PyExc_TypeError, "%R is no slot", name);
    }
    Py_XDECREF(mark);
    Py_XDECREF(object);
    Py_XDECREF(basic_size);
    return found;
}

static struct layout *make_layout(PyObject *source);

static int fill_value(struct value *value, PyObject *source)
{
    PyObject *element, *layout;
    int kind;
    long long element_size;
    if (!PyArg_ParseTuple(source, "ippLOO", &kind, &value->nullable, &value->compact, &element_size, &element, &layout))
        return -1;
    if (kind < BOOL || kind > STRUCT || (kind == ARRAY) != (element != Py_None) || (kind == STRUCT) != (layout != Py_None)) {
        PyErr_SetString(PyExc_ValueError, "a plan has a value of an unknown kind");
        return -1;
    }
    value->kind = (enum kind)kind;
    value->element_size = element_size;
    if (kind == ARRAY) {
        if (!(value->element = zeroed(1, sizeof *value->element)))
            return -1;
        return fill_value(value->element, element);
    }
    if (kind == STRUCT)
        return (value->layout = make_layout(layout)) ? 0 : -1;
    return 0;
}

static int fill_field(struct layout *layout, PyObject *source, struct field *field)
{
    PyObject *name, *value;
    if (!PyArg_ParseTuple(source, "UO!", &name, &PyTuple_Type, &value))
        return -1;
    return (field->slot = find_slot(layout->type, name)) < 0 ? -1 : fill_value(&field->value, value);
}

static int fill_absent(struct layout *layout, PyObject *source, struct absent *absent)
{
    PyObject *name, *made_of;
    int making;
    if (!PyArg_ParseTuple(source, "UiO", &name, &making, &made_of))
        return -1;
    absent->making = (enum making)making;
    absent->source = own(made_of);
    return (absent->slot = find_slot(layout->type, name)) < 0 ? -1 : 0;
}

static int fill_tagged(struct layout *layout, PyObject *source, struct tagged *tagged)
{
    PyObject *name, *value, *standard;
    long long tag;
    if (!PyArg_ParseTuple(source, "ULO!O", &name, &tag, &PyTuple_Type, &value, &standard))
        return -1;
    tagged->tag = tag;
    tagged->standard = own(standard);
    if (fill_value(&tagged->value, value))
        return -1;
    tagged->by_field = tagged->value.kind == STRUCT && Py_TYPE(standard) == tagged->value.layout->type;
    return (tagged->slot = find_slot(layout->type, name)) < 0 ? -1 : 0;
}

/* Takes (class, flexible, fields, absent fields, tagged fields, names of all fields). */
static struct layout *make_layout(PyObject *source)
{
    PyObject *type, *fields, *absents, *tagged, *names;
    struct layout *layout = zeroed(1, sizeof *layout);
    if (!layout)
        return NULL;
    if (!PyArg_ParseTuple(source, "O!pO!O!O!O!", &PyType_Type, &type, &layout->flexible, &PyTuple_Type, &fields,
                          &PyTuple_Type, &absents, &PyTuple_Type, &tagged, &PyTuple_Type, &names))
        goto failed;
    layout->type = (PyTypeObject *)own(type);
    layout->field_count = PyTuple_Size(fields);
    layout->absent_count = PyTuple_Size(absents);
    layout->tagged_count = PyTuple_Size(tagged);
    layout->slot_count = PyTuple_Size(names);
    if (!(layout->fields = zeroed(layout->field_count, sizeof *layout->fields)) ||
        !(layout->absents = zeroed(layout->absent_count, sizeof *layout->absents)) ||
        !(layout->tagged = zeroed(layout->tagged_count, sizeof *layout->tagged)) ||
        !(layout->slots = zeroed(layout->slot_count, sizeof *layout->slots)))
        goto failed;
    for (Py_ssize_t index = 0; index < layout->field_count; index++)
        if (fill_field(layout, PyTuple_GetItem(fields, index), &layout->fields[index]))
            goto failed;
    for (Py_ssize_t index = 0; index < layout->absent_count; index++)
        if (fill_absent(layout, PyTuple_GetItem(absents, index), &layout->absents[index]))
            goto failed;
    for (Py_ssize_t index = 0; index < layout->tagged_count; index++)
        if (fill_tagged(layout, PyTuple_GetItem(tagged, index), &layout->tagged[index]))
            goto failed;
    for (Py_ssize_t index = 0; index < layout->slot_count; index++)
        if ((layout->slots[index] = find_slot(layout->type, PyTuple_GetItem(names, index))) < 0)
            goto failed;
    return layout;
failed:
    free_layout(layout);
    return NULL;
}

static inline PyObject **slot_of(PyObject *object, Py_ssize_t slot)
{
    return (PyObject **)((char *)object + slot);
}

/* -- decoding ------------------------------------------------------------------------------------------------------ */

struct reader {
    PyObject *source; /* the buffer, for records, which are views of it */
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

/* A length or count; null is -1 in both encodings. Varints of five bytes are for the long way. */
static inline enum outcome read_length(struct reader *from, int compact, int prefix_size, int64_t *length)
{
    if (!compact) {
        if (from->size - from->position < prefix_size)
            return UNUSUAL;
        const uint8_t *at = from->data + from->position;
        *length = prefix_size == 2 ? (int16_t)big_endian(at, 2) : (int32_t)big_endian(at, 4);
        from->position += prefix_size;
        return *length < -1 ? UNUSUAL : DONE;
    }
    int64_t value = 0;
    for (int shift = 0; shift < 28; shift += 7) {
        if (from->position >= from->size)
            return UNUSUAL;
        uint8_t byte = from->data[from->position++];
        value |= (int64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *length = value - 1;
            return DONE;
        }
    }
    return UNUSUAL;
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

/* A view of the part of the frame, as slicing gives it. */
static PyObject *view_of(PyObject *source, int64_t from, int64_t to)
{
    PyObject *view = NULL;
    PyObject *whole = PyMemoryView_Check(source) ? own(source) : PyMemoryView_FromObject(source);
    PyObject *start = PyLong_FromLongLong(from), *stop = PyLong_FromLongLong(to);
    PyObject *range = start && stop ? PySlice_New(start, stop, NULL) : NULL;
    if (whole && range)
        view = PyObject_GetItem(whole, range);
    Py_XDECREF(whole);
    Py_XDECREF(range);
    Py_XDECREF(start);
    Py_XDECREF(stop);
    return view;
}

static enum outcome decode_struct(struct reader *from, const struct layout *layout, PyObject **result);

static enum outcome decode_sized(struct reader *from, const struct value *value, PyObject **result)
{
    int64_t length;
    if (read_length(from, value->compact, value->kind == STRING ? 2 : 4, &length))
        return UNUSUAL;
    if (length < 0) {
        if (!value->nullable)
            return UNUSUAL;
        *result = own(Py_None);
        return DONE;
    }
    if (length > from->size - from->position || (value->kind == STRING && length > STRING_SIZE_MAX))
        return UNUSUAL;
    const char *at = (const char *)from->data + from->position;
    if (value->kind == STRING) {
        if (!(*result = PyUnicode_DecodeUTF8(at, (Py_ssize_t)length, NULL))) {
            if (!PyErr_ExceptionMatches(PyExc_UnicodeDecodeError))
                return RAISED;
            PyErr_Clear();
            return UNUSUAL;
        }
    } else if (value->kind == BYTES) {
        *result = PyBytes_FromStringAndSize(at, (Py_ssize_t)length);
    } else {
        *result = view_of(from->source, from->position, from->position + length);
    }
    from->position += length;
    return *result ? DONE : RAISED;
}

static enum outcome decode_value(struct reader *from, const struct value *value, PyObject **result);

static enum outcome decode_array(struct reader *from, const struct value *value, PyObject **result)
{
    int64_t count;
    if (read_length(from, value->compact, 4, &count))
        return UNUSUAL;
    if (count < 0) {
        if (!value->nullable)
            return UNUSUAL;
        *result = own(Py_None);
        return DONE;
    }
    if (count * value->element_size > from->size - from->position)
        return UNUSUAL;
    from->budget -= count;
    if (from->budget < 0)
        return OVER_BUDGET;
    PyObject *items = PyList_New((Py_ssize_t)count);
    if (!items)
        return RAISED;
    for (int64_t index = 0; index < count; index++) {
        PyObject *item = NULL;
        enum outcome outcome = decode_value(from, value->element, &item);
        if (outcome) {
            Py_DECREF(items);
            return outcome;
        }
        PyList_SetItem(items, (Py_ssize_t)index, item);
        give_way(index);
    }
    *result = items;
    return DONE;
}

static enum outcome decode_value(struct reader *from, const struct value *value, PyObject **result)
{
    switch (value->kind) {
    case STRING:
    case BYTES:
    case RECORDS:
        return decode_sized(from, value, result);
    case ARRAY:
        return decode_array(from, value, result);
    case STRUCT:
        if (value->nullable) {
            if (from->position >= from->size)
                return UNUSUAL;
            if (from->data[from->position++] > 127) {
                *result = own(Py_None);
                return DONE;
            }
        }
        return decode_struct(from, value->layout, result);
    default:
        if (from->size - from->position < fixed_size[value->kind])
            return UNUSUAL;
        *result = fixed_object(value->kind, from->data + from->position);
        from->position += fixed_size[value->kind];
        return *result ? DONE : RAISED;
    }
}

static PyObject *make_absent(const struct absent *absent)
{
    switch (absent->making) {
    case NEW_LIST:
        return PyList_New(0);
    case NEW_STRUCT:
        return PyObject_CallNoArgs(absent->source);
    default:
        return own(absent->source);
    }
}

static enum outcome decode_struct(struct reader *from, const struct layout *layout, PyObject **result)
{
    PyObject *object = PyType_GenericAlloc(layout->type, 0);
    enum outcome outcome = object ? DONE : RAISED;
    for (Py_ssize_t index = 0; !outcome && index < layout->field_count; index++) {
        const struct field *field = &layout->fields[index];
        outcome = decode_value(from, &field->value, slot_of(object, field->slot));
    }
    for (Py_ssize_t index = 0; !outcome && index < layout->absent_count; index++) {
        const struct absent *absent = &layout->absents[index];
        if (!(*slot_of(object, absent->slot) = make_absent(absent)))
            outcome = RAISED;
    }
    /* Tagged fields that are there, known or not, are for the long way. */
    if (!outcome && layout->flexible && (from->position >= from->size || from->data[from->position++] != 0))
        outcome = UNUSUAL;
    if (outcome) {
        Py_XDECREF(object);
        return outcome;
    }
    *result = object;
    return DONE;
}

/* -- encoding ------------------------------------------------------------------------------------------------------ */

struct writer {
    uint8_t *data;
    size_t size, capacity;
    PyObject *parts; /* the list that gets what is written, and records as they are */
    uint8_t first[512];
};

static uint8_t *room(struct writer *to, size_t size)
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

static inline void put(uint8_t *at, uint64_t value, int size_bytes)
{
    for (int index = size_bytes - 1; index >= 0; index--, value >>= 8)
        at[index] = (uint8_t)value;
}

static inline enum outcome write_number(struct writer *to, uint64_t value, int size_bytes)
{
    uint8_t *at = room(to, (size_t)size_bytes);
    if (!at)
        return RAISED;
    put(at, value, size_bytes);
    return DONE;
}

static inline enum outcome write_uvarint(struct writer *to, uint64_t value)
{
    for (; value > 0x7f; value >>= 7)
        if (write_number(to, (value & 0x7f) | 0x80, 1))
            return RAISED;
    return write_number(to, value, 1);
}

/* A length or count, -1 for null. */
static inline enum outcome write_length(struct writer *to, int64_t length, int compact, int prefix_size)
{
    if (length >= (prefix_size == 2 && !compact ? INT16_MAX + 1 : INT32_MAX))
        return UNUSUAL;
    return compact ? write_uvarint(to, (uint64_t)(length + 1)) : write_number(to, (uint64_t)length, prefix_size);
}

/* What a call into Python failed with says the long way; a lack of memory, or an interrupt, is told from here. */
static enum outcome not_usual(void)
{
    if (PyErr_ExceptionMatches(PyExc_MemoryError) || !PyErr_ExceptionMatches(PyExc_Exception))
        return RAISED;
    PyErr_Clear();
    return UNUSUAL;
}

static enum outcome encode_fixed(struct writer *to, enum kind kind, PyObject *value)
{
    static const long long lowest[] = {0, INT8_MIN, INT16_MIN, 0, INT32_MIN, 0, INT64_MIN};
    static const long long highest[] = {1, INT8_MAX, INT16_MAX, UINT16_MAX, INT32_MAX, UINT32_MAX, INT64_MAX};
    if (kind == UUID) {
        if (!PyBytes_Check(value) || PyBytes_Size(value) != UUID_SIZE)
            return UNUSUAL;
        uint8_t *at = room(to, UUID_SIZE);
        if (!at)
            return RAISED;
        memcpy(at, PyBytes_AsString(value), UUID_SIZE);
        return DONE;
    }
    if (kind == FLOAT64) {
        uint64_t bits;
        double number = PyFloat_AsDouble(value);
        if (number == -1.0 && PyErr_Occurred())
            return not_usual();
        memcpy(&bits, &number, sizeof bits);
        return write_number(to, bits, 8);
    }
    if (!PyLong_Check(value))
        return UNUSUAL;
    long long number = PyLong_AsLongLong(value);
    if (number == -1 && PyErr_Occurred())
        return not_usual();
    if (number < lowest[kind] || number > highest[kind])
        return UNUSUAL;
    return write_number(to, (uint64_t)number, fixed_size[kind]);
}

static enum outcome end_part(struct writer *to)
{
    if (!to->size)
        return DONE;
    PyObject *part = PyBytes_FromStringAndSize((const char *)to->data, (Py_ssize_t)to->size);
    int failed = !part || PyList_Append(to->parts, part);
    Py_XDECREF(part);
    to->size = 0;
    return failed ? RAISED : DONE;
}

static enum outcome write_bytes(struct writer *to, const void *bytes, Py_ssize_t size)
{
    uint8_t *at = room(to, (size_t)size);
    if (!at)
        return RAISED;
    memcpy(at, bytes, (size_t)size);
    return DONE;
}

/* Few bytes are copied; many stay where they are and become a part of their own, as what is stored in a file does. */
static enum outcome encode_bytes(struct writer *to, const struct value *kind, PyObject *value)
{
    enum outcome outcome;
    Py_ssize_t size = PyObject_Size(value);
    if (size < 0)
        return not_usual();
    if (size <= COPIED_BYTES_MAX && PyObject_CheckBuffer(value)) {
        Py_buffer buffer;
        if (PyObject_GetBuffer(value, &buffer, PyBUF_SIMPLE))
            return not_usual();
        outcome = buffer.len == size ? write_length(to, size, kind->compact, 4) : UNUSUAL;
        if (!outcome)
            outcome = write_bytes(to, buffer.buf, size);
        PyBuffer_Release(&buffer);
        return outcome;
    }
    if ((outcome = write_length(to, size, kind->compact, 4)) || (outcome = end_part(to)))
        return outcome;
    return PyList_Append(to->parts, value) ? RAISED : DONE;
}

static enum outcome encode_struct(struct writer *to, const struct layout *layout, PyObject *object);

static enum outcome encode_held(struct writer *to, const struct value *kind, PyObject *value);

/* Holds on to the value meanwhile: a length or a comparison may run Python code, which may let go of it. */
static enum outcome encode_value(struct writer *to, const struct value *kind, PyObject *value)
{
    if (!value)
        return UNUSUAL;
    Py_IncRef(value);
    enum outcome outcome = encode_held(to, kind, value);
    Py_DecRef(value);
    return outcome;
}

static enum outcome encode_held(struct writer *to, const struct value *kind, PyObject *value)
{
    enum outcome outcome;
    if (kind->kind <= UUID)
        return encode_fixed(to, kind->kind, value);
    if (kind->nullable && value == Py_None)
        return kind->kind == STRUCT ? write_number(to, 0xff, 1)
                                    : write_length(to, -1, kind->compact, kind->kind == STRING ? 2 : 4);
    switch (kind->kind) {
    case STRING: {
        Py_ssize_t size;
        const char *text = PyUnicode_Check(value) ? PyUnicode_AsUTF8AndSize(value, &size) : NULL;
        if (!text)
            return PyErr_Occurred() ? not_usual() : UNUSUAL;
        if ((outcome = write_length(to, size, kind->compact, 2)))
            return outcome;
        return write_bytes(to, text, size);
    }
    case ARRAY: {
        if (!PyList_Check(value))
            return UNUSUAL;
        if ((outcome = write_length(to, PyList_Size(value), kind->compact, 4)))
            return outcome;
        for (Py_ssize_t index = 0; index < PyList_Size(value); index++) {
            if ((outcome = encode_value(to, kind->element, PyList_GetItem(value, index))))
                return outcome;
            give_way(index);
        }
        return DONE;
    }
    case STRUCT:
        if (kind->nullable && (outcome = write_number(to, 1, 1)))
            return outcome;
        return encode_struct(to, kind->layout, value);
    default:
        return encode_bytes(to, kind, value);
    }
}

static enum outcome is_equal(PyObject *value, PyObject *other, int *equal)
{
    *equal = value == other;
    if (*equal || !value || !other)
        return value && other ? DONE : UNUSUAL;
    Py_IncRef(value);
    *equal = PyObject_RichCompareBool(value, other, Py_EQ);
    Py_DecRef(value);
    return *equal < 0 ? not_usual() : DONE;
}

/* Whether a tagged field is what it is when it is not written. */
static enum outcome is_standard(const struct tagged *tagged, PyObject *value, int *standard)
{
    const struct layout *layout = tagged->value.layout;
    enum outcome outcome = DONE;
    if (!tagged->by_field)
        return is_equal(value, tagged->standard, standard);
    if (!value || Py_TYPE(value) != layout->type)
        return UNUSUAL;
    Py_IncRef(value);
    *standard = 1;
    for (Py_ssize_t index = 0; !outcome && *standard && index < layout->slot_count; index++) {
        Py_ssize_t slot = layout->slots[index];
        outcome = is_equal(*slot_of(value, slot), *slot_of(tagged->standard, slot), standard);
    }
    Py_DecRef(value);
    return outcome;
}

/* The size stands before the value and is known after it. */
static enum outcome encode_tagged(struct writer *to, const struct tagged *tagged, PyObject *value)
{
    enum outcome outcome;
    Py_ssize_t part_count = PyList_Size(to->parts);
    if (tagged->value.kind == STRUCT && value == Py_None)
        return UNUSUAL;
    if ((outcome = write_uvarint(to, (uint64_t)tagged->tag)))
        return outcome;
    size_t start = to->size;
    if ((outcome = encode_value(to, &tagged->value, value)))
        return outcome;
    if (PyList_Size(to->parts) != part_count)
        return UNUSUAL;
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

static enum outcome encode_all_tagged(struct writer *to, const struct layout *layout, PyObject *object)
{
    enum outcome outcome;
    uint64_t written = 0, count = 0;
    if (layout->tagged_count > 64)
        return UNUSUAL;
    for (Py_ssize_t index = 0; index < layout->tagged_count; index++) {
        const struct tagged *tagged = &layout->tagged[index];
        int standard;
        if ((outcome = is_standard(tagged, *slot_of(object, tagged->slot), &standard)))
            return outcome;
        written |= (uint64_t)!standard << index;
        count += !standard;
    }
    if ((outcome = write_uvarint(to, count)))
        return outcome;
    for (Py_ssize_t index = 0; index < layout->tagged_count; index++) {
        const struct tagged *tagged = &layout->tagged[index];
        if (written >> index & 1 && (outcome = encode_tagged(to, tagged, *slot_of(object, tagged->slot))))
            return outcome;
    }
    return DONE;
}

static enum outcome encode_struct(struct writer *to, const struct layout *layout, PyObject *object)
{
    enum outcome outcome;
    if (Py_TYPE(object) != layout->type)
        return UNUSUAL;
    for (Py_ssize_t index = 0; index < layout->field_count; index++) {
        const struct field *field = &layout->fields[index];
        if ((outcome = encode_value(to, &field->value, *slot_of(object, field->slot))))
            return outcome;
    }
    return layout->flexible ? encode_all_tagged(to, layout, object) : DONE;
}

/* -- the type ------------------------------------------------------------------------------------------------------ */

struct plan {
    PyObject_HEAD
    struct layout *layout;
};

static PyObject *new_plan(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    PyObject *source;
    struct plan *plan;
    (void)keywords;
    if (!PyArg_ParseTuple(args, "O!:Plan", &PyTuple_Type, &source))
        return NULL;
    if (!(plan = (struct plan *)PyType_GenericAlloc(type, 0)))
        return NULL;
    if (!(plan->layout = make_layout(source))) {
        Py_DECREF(plan);
        return NULL;
    }
    return (PyObject *)plan;
}

static void free_plan(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    free_layout(((struct plan *)self)->layout);
    release(self);
    Py_DECREF(type);
}

static PyObject *decode(PyObject *self, PyObject *args)
{
    Py_buffer buffer;
    PyObject *source, *message = NULL;
    Py_ssize_t position, elements_max;
    if (!PyArg_ParseTuple(args, "Onn:decode", &source, &position, &elements_max))
        return NULL;
    if (PyObject_GetBuffer(source, &buffer, PyBUF_SIMPLE))
        return NULL;
    struct reader from = {source, buffer.buf, buffer.len, position, elements_max};
    enum outcome outcome = UNUSUAL;
    if (position >= 0 && position <= buffer.len)
        outcome = decode_struct(&from, ((struct plan *)self)->layout, &message);
    PyBuffer_Release(&buffer);
    if (outcome == DONE)
        return Py_BuildValue("(Nn)", message, (Py_ssize_t)from.position);
    if (outcome == OVER_BUDGET)
        return own(Py_False);
    return outcome == UNUSUAL ? own(Py_None) : NULL;
}

static PyObject *encode(PyObject *self, PyObject *args)
{
    PyObject *message, *parts;
    if (!PyArg_ParseTuple(args, "OO!:encode", &message, &PyList_Type, &parts))
        return NULL;
    struct writer to = {.parts = parts};
    to.data = to.first;
    to.capacity = sizeof to.first;
    Py_ssize_t before = PyList_Size(parts);
    enum outcome outcome = encode_struct(&to, ((struct plan *)self)->layout, message);
    if (outcome == DONE)
        outcome = end_part(&to);
    if (to.data != to.first)
        free(to.data);
    if (outcome == DONE)
        return own(Py_True);
    if (outcome == UNUSUAL && PyList_Size(parts) > before && PyList_SetSlice(parts, before, PyList_Size(parts), NULL))
        outcome = RAISED;
    return outcome == UNUSUAL ? own(Py_False) : NULL;
}

static PyMethodDef plan_methods[] = {
    {"decode", decode, METH_VARARGS, "Give (message, position behind it), None for the long way, or False if it is over its budget."},
    {"encode", encode, METH_VARARGS, "Append the encoding of a message to a list; False means the long way."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot plan_slots[] = {
    {Py_tp_new, new_plan},
    {Py_tp_dealloc, free_plan},
    {Py_tp_methods, plan_methods},
    {Py_tp_doc, "The usual shape of one version of a message; see plan.py."},
    {0, NULL},
};

static PyType_Spec plan_spec = {"oncelog.protocol._codec.Plan", sizeof(struct plan), 0, Py_TPFLAGS_DEFAULT, plan_slots};

static int add_plan(PyObject *module)
{
    PyObject *type = PyType_FromModuleAndSpec(module, &plan_spec, NULL);
    int failed = !type || PyModule_AddObjectRef(module, "Plan", type);
    Py_XDECREF(type);
    return failed ? -1 : 0;
}

static PyModuleDef_Slot module_slots[] = {{Py_mod_exec, add_plan}, {0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_codec", "Messages by plan; see plan.py.", 0, NULL, module_slots, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__codec(void)
{
    return PyModuleDef_Init(&definition);
}
