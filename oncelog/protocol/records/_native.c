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
 */
#include "batch.h"
#include "columns.h"
#include "parse.h"

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
    return own(Py_None);
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
