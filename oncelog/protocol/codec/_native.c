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
 */
#include "decode.h"
#include "encode.h"

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
