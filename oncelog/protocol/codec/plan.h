/* A plan in C, made from the named tuples of plan.py: structs in place of tuples, and slots in place of names. */
#ifndef ONCELOG_CODEC_PLAN_H
#define ONCELOG_CODEC_PLAN_H

#include "../native.h"

enum kind { BOOL, INT8, INT16, UINT16, INT32, UINT32, INT64, FLOAT64, UUID, STRING, BYTES, RECORDS, ARRAY, STRUCT, KIND_COUNT };

/* ValuePlan.kind: a code of Python's struct module for the fixed-width types. */
static const char *const kind_names[] = {"?", "b", "h", "H", "i", "I", "q", "d", "16s", "string", "bytes", "records", "array", "struct"};

/* The first two are those of primitives.py. */
enum { STRING_SIZE_MAX = 0x7FFF, UNKNOWN_TAGS_MAX = 64, TAGGED_FIELDS_MAX = 64, UUID_SIZE = 16, COPIED_BYTES_MAX = 4096 };

static const int fixed_size[] = {1, 1, 2, 2, 4, 4, 8, 8, UUID_SIZE};

/* RAISED means that Python has an exception set. */
enum outcome { DONE, REFUSED, RAISED, OVER_BUDGET };

/* So many elements take about 0.1 ms. */
enum { ELEMENTS_PER_TURN = 1024 };

static inline void yield_gil(int64_t index)
{
    if (index % ELEMENTS_PER_TURN == ELEMENTS_PER_TURN - 1)
        PyEval_RestoreThread(PyEval_SaveThread());
}

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

#endif
