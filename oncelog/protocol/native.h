/* What both C modules include. Only the limited API of Python 3.11 is used, so one binary serves all later versions. */
#ifndef ONCELOG_NATIVE_H
#define ONCELOG_NATIVE_H

#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

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

static inline uint64_t big_endian(const uint8_t *at, int size_bytes)
{
    uint64_t value = 0;
    for (int index = 0; index < size_bytes; index++)
        value = value << 8 | at[index];
    return value;
}

#endif
