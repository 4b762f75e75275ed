// api.c: the ICD loader's functions, and the names of its errors.
#include "backends/opencl/program/api.h"

#include "os/library.h"

opencl_functions opencl;

static void *library;

bool opencl_load(void) {
    static bool tried = false;
    static bool is_complete = false;
    if (!tried) {
        library = os_library_open("libOpenCL.so.1");
        library = library != NULL ? library : os_library_open("libOpenCL.so");
        is_complete = library != NULL;
#define X(name) is_complete = is_complete && os_library_function(library, #name, &opencl.name);
        OPENCL_FUNCTION_LIST(X)
#undef X
        tried = true;
    }
    return is_complete;
}

bool opencl_find_function(const char *name, void *function) {
    return opencl_load() && os_library_function(library, name, function);
}

#define ERROR_LIST(X)                               \
    X(CL_SUCCESS)                                   \
    X(CL_DEVICE_NOT_FOUND)                          \
    X(CL_DEVICE_NOT_AVAILABLE)                      \
    X(CL_COMPILER_NOT_AVAILABLE)                    \
    X(CL_MEM_OBJECT_ALLOCATION_FAILURE)             \
    X(CL_OUT_OF_RESOURCES)                          \
    X(CL_OUT_OF_HOST_MEMORY)                        \
    X(CL_PROFILING_INFO_NOT_AVAILABLE)              \
    X(CL_MEM_COPY_OVERLAP)                          \
    X(CL_IMAGE_FORMAT_MISMATCH)                     \
    X(CL_IMAGE_FORMAT_NOT_SUPPORTED)                \
    X(CL_BUILD_PROGRAM_FAILURE)                     \
    X(CL_MAP_FAILURE)                               \
    X(CL_MISALIGNED_SUB_BUFFER_OFFSET)              \
    X(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST) \
    X(CL_COMPILE_PROGRAM_FAILURE)                   \
    X(CL_LINKER_NOT_AVAILABLE)                      \
    X(CL_LINK_PROGRAM_FAILURE)                      \
    X(CL_DEVICE_PARTITION_FAILED)                   \
    X(CL_KERNEL_ARG_INFO_NOT_AVAILABLE)             \
    X(CL_INVALID_VALUE)                             \
    X(CL_INVALID_DEVICE_TYPE)                       \
    X(CL_INVALID_PLATFORM)                          \
    X(CL_INVALID_DEVICE)                            \
    X(CL_INVALID_CONTEXT)                           \
    X(CL_INVALID_QUEUE_PROPERTIES)                  \
    X(CL_INVALID_COMMAND_QUEUE)                     \
    X(CL_INVALID_HOST_PTR)                          \
    X(CL_INVALID_MEM_OBJECT)                        \
    X(CL_INVALID_BINARY)                            \
    X(CL_INVALID_BUILD_OPTIONS)                     \
    X(CL_INVALID_PROGRAM)                           \
    X(CL_INVALID_PROGRAM_EXECUTABLE)                \
    X(CL_INVALID_KERNEL_NAME)                       \
    X(CL_INVALID_KERNEL_DEFINITION)                 \
    X(CL_INVALID_KERNEL)                            \
    X(CL_INVALID_ARG_INDEX)                         \
    X(CL_INVALID_ARG_VALUE)                         \
    X(CL_INVALID_ARG_SIZE)                          \
    X(CL_INVALID_KERNEL_ARGS)                       \
    X(CL_INVALID_WORK_DIMENSION)                    \
    X(CL_INVALID_WORK_GROUP_SIZE)                   \
    X(CL_INVALID_WORK_ITEM_SIZE)                    \
    X(CL_INVALID_GLOBAL_OFFSET)                     \
    X(CL_INVALID_EVENT_WAIT_LIST)                   \
    X(CL_INVALID_EVENT)                             \
    X(CL_INVALID_OPERATION)                         \
    X(CL_INVALID_BUFFER_SIZE)                       \
    X(CL_INVALID_GLOBAL_WORK_SIZE)                  \
    X(CL_INVALID_PROPERTY)                          \
    X(CL_INVALID_COMPILER_OPTIONS)                  \
    X(CL_INVALID_LINKER_OPTIONS)                    \
    X(CL_INVALID_DEVICE_PARTITION_COUNT)

const char *opencl_error_name(cl_int code) {
    static _Thread_local char unnamed[32];
    switch (code) {
#define X(name) \
    case name: return #name;
        ERROR_LIST(X)
#undef X
    case -1001: return "CL_PLATFORM_NOT_FOUND_KHR";
    default: snprintf(unnamed, sizeof unnamed, "CL error %d", (int)code); return unnamed;
    }
}

sm_status opencl_fail(const char *device_id, const char *doing, cl_int code) {
    bool is_memory =
        code == CL_MEM_OBJECT_ALLOCATION_FAILURE || code == CL_OUT_OF_HOST_MEMORY || code == CL_INVALID_BUFFER_SIZE;
    return sm_fail(is_memory ? SM_ERR_OOM : SM_ERR_DEVICE, "%s: %s: %s (%d)", device_id, doing, opencl_error_name(code),
                   (int)code);
}
