// backend_call.h: a call of a backend that lives in another process (backend_apart.c), in memory that both share.
#pragma once

#include "backend_library.h"
#include "src/plan/own_process.h"

typedef enum {
    BACKEND_FACTS,
    BACKEND_DESCRIBE,
    BACKEND_OPEN,
    BACKEND_CLOSE,
    BACKEND_SUPPORTS,
    BACKEND_EMULATES,
    BACKEND_WORKING_BYTES,
    BACKEND_PREPARE,
    BACKEND_RELEASE,
    BACKEND_EXECUTE,
    BACKEND_EXECUTE_OP, // one, and to its end
    BACKEND_SYNCHRONIZE,
    BACKEND_UPLOAD,
    BACKEND_DOWNLOAD,
    BACKEND_KEEP_WEIGHTS,
} backend_call_kind;

enum { BACKEND_PART_BYTES = 1 << 20, BACKEND_WORD_SIZE = 64, BACKEND_MOST_DEVICES = 16 };

// A plan follows as its tensors, ops, arenas and buckets.
typedef struct {
    sm_plan plan;
    char optimizer[BACKEND_WORD_SIZE]; // "" if it has none
} backend_plan;

typedef struct {
    backend_call_kind kind;
    void *device; // addresses there, which the judge only hands back
    void *executable;
    int index; // of a device or a tensor
    sm_range range;
    int64_t offset_elems;
    int64_t n_elems;
    sm_weights_action action;
    sm_precision precision;
    sm_op op;
    bool is_later;
    bool brings_plan; // in `data`; false: the plan of the call before
    struct {
        int n_threads;
        bool has_isa, has_cpu_mask, keep_env, openblas;
        char isa[BACKEND_WORD_SIZE];
        char cpu_mask[SM_OWN_MESSAGE_SIZE];
    } how; // sm_open_options

    // The answer.
    sm_status status;
    char message[SM_OWN_MESSAGE_SIZE];
    char name[BACKEND_WORD_SIZE];
    char summary[SM_TEXT_SIZE];
    bool tunes, openblas, has_emulates, has_keep_weights;
    int n_devices;
    bool yes;
    size_t size_bytes;
    sm_device_info info;
    sm_executable made;

    _Alignas(64) char data[]; // a plan, or a part of a tensor
} backend_call;
