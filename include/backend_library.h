// backend_library.h: a backend that a user brings as a shared library: `--backend-library FILE.so`.
//
//     static const sm_backend *get(void) { return &my_backend; }
//     const sm_backend_library stepmark_backend_library = SM_BACKEND_LIBRARY(get);
//
// Compile it against include/ of the program's version: the version and the sizes of the shared structs are compared
// when it is loaded. The program provides the functions of include/.
#pragma once

#include "backend.h"

enum { SM_BACKEND_VERSION = 1 };
#define SM_BACKEND_SYMBOL "stepmark_backend_library"

typedef struct {
    int version;
    size_t backend_bytes; // sizeof(sm_backend), and so on
    size_t plan_bytes;
    size_t op_bytes;
    size_t tensor_bytes;
    const sm_backend *(*get)(void); // lives as long as the process
} sm_backend_library;

#define SM_BACKEND_LIBRARY(get_it) \
    { SM_BACKEND_VERSION, sizeof(sm_backend), sizeof(sm_plan), sizeof(sm_op), sizeof(sm_tensor), get_it }

// src/session/registry.c: adds a backend, whose name must be new.
sm_status sm_backend_add(const sm_backend *backend);
