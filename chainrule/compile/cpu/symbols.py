"""Names and numbers that machine code and who runs it agree on."""

from __future__ import annotations

UNDO = "undo"
"""The symbol of the numbers of those objects that a run which is ended may leave half written."""
PARALLEL = "chainrule_parallel"
"""The function that lets the threads of the pool work."""
WORKER, WORKERS, STOP, RESET = "pool_worker", "pool_workers", "pool_stop", "pool_reset"
"""Functions of the pool's module: wait for work until told to stop; say how many wait; tell all to
stop; begin anew, in a process without workers."""
MOST_THREADS = 256
"""How many threads there may be."""
CLOCK = "GetTickCount64"
"""The clock where there is no POSIX: milliseconds since the machine was started."""
LOOKUP, CLEAR = "PyDict_GetItemWithError", "PyErr_Clear"
"""CPython's functions that give what a dictionary has under a key, or a null pointer, and that
forget what was raised by a key's comparison meanwhile. `PyDict_GetItem`, which is both, saves what
was raised before, each time."""
ERROR = "PyErr_Occurred"
"""CPython's function that gives a null pointer where nothing was raised."""
APPEND, AS_FLOAT = "PyList_Append", "PyFloat_AsDouble"
"""CPython's functions that add to a list, and that give a number as a float."""
NEXT, CALL = "PyIter_Next", "PyObject_CallFunctionObjArgs"
"""CPython's functions that give what an iterator gives next, or a null pointer, and that call."""
CONTEXT, NEW = "PyContextVar_Get", "PyType_GenericAlloc"
"""CPython's functions that read a context variable, and that make an object of a class."""
ITEM = "PyList_GetItem"
"""CPython's function that gives an element of a list, which is not owned."""
FETCH, RESTORE = "PyErr_Fetch", "PyErr_Restore"
"""CPython's functions that take what was raised away for a while, and that raise it again."""
PYTHON = (
    "PyEval_SaveThread", "PyEval_RestoreThread", "PyErr_CheckSignals", "PyLong_FromLongLong",
    CALL, "Py_DecRef", "Py_IncRef", "PyFloat_FromDouble", LOOKUP, ERROR,
    CLEAR, APPEND, AS_FLOAT, NEXT, CONTEXT, NEW, FETCH, RESTORE, "PyList_New", ITEM,
)  # fmt: skip
"""Functions of CPython that are called."""
HEADER = object.__basicsize__
"""Bytes of bookkeeping at the start of a Python object."""
LETTERS = {4: "s", 8: "d"}
"""What routines for floats of so many bytes begin with."""
LAPACK = ("potrf", "gesv", "getrf", "trtrs", "geqrf", "orgqr", "syevd", "gesdd")
"""The routines of LAPACK that machine code may call."""


def lapack(name: str, itemsize: int) -> str:
    """The symbol of a routine of LAPACK for floats of so many bytes."""
    return f"chainrule_{LETTERS[itemsize]}{name}"
