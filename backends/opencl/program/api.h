// api.h: the backend's OpenCL functions, from the ICD loader at run time: without one its device has a reason.
#pragma once

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include "status.h"

#define OPENCL_FUNCTION_LIST(X)    \
    X(clGetPlatformIDs)            \
    X(clGetPlatformInfo)           \
    X(clGetDeviceIDs)              \
    X(clGetDeviceInfo)             \
    X(clCreateSubDevices)          \
    X(clReleaseDevice)             \
    X(clCreateContext)             \
    X(clReleaseContext)            \
    X(clCreateCommandQueue)        \
    X(clReleaseCommandQueue)       \
    X(clCreateProgramWithSource)   \
    X(clCreateProgramWithBinary)   \
    X(clBuildProgram)              \
    X(clGetProgramInfo)            \
    X(clGetProgramBuildInfo)       \
    X(clReleaseProgram)            \
    X(clCreateKernel)              \
    X(clSetKernelArg)              \
    X(clReleaseKernel)             \
    X(clCreateBuffer)              \
    X(clReleaseMemObject)          \
    X(clEnqueueNDRangeKernel)      \
    X(clEnqueueCopyBuffer)         \
    X(clEnqueueFillBuffer)         \
    X(clEnqueueReadBuffer)         \
    X(clEnqueueWriteBuffer)        \
    X(clEnqueueMarkerWithWaitList) \
    X(clWaitForEvents)             \
    X(clGetEventInfo)              \
    X(clGetEventProfilingInfo)     \
    X(clRetainEvent)               \
    X(clReleaseEvent)              \
    X(clFlush)                     \
    X(clFinish)

// The functions, under their own names: opencl.clFinish(queue).
typedef struct {
#define X(name) __typeof__(&name) name;
    OPENCL_FUNCTION_LIST(X)
#undef X
} opencl_functions;

extern opencl_functions opencl;

// Loads libOpenCL.so once; false if it is missing.
bool opencl_load(void);

// A function that not every loader has, as os_library_function.
bool opencl_find_function(const char *name, void *function);

// "CL_OUT_OF_RESOURCES"; "CL error -9999" for codes that the standard does not name.
const char *opencl_error_name(cl_int code);

// Keeps the message "DEVICE: DOING: CL_NAME (code)". SM_ERR_OOM for codes of missing memory, else SM_ERR_DEVICE.
sm_status opencl_fail(const char *device_id, const char *doing, cl_int code);

// Fails unless the code is CL_SUCCESS.
static inline sm_status opencl_check(const char *device_id, const char *doing, cl_int code) {
    return code == CL_SUCCESS ? SM_OK : opencl_fail(device_id, doing, code);
}

// Whether what the event stands for is done. It asks the driver, for less than a microsecond, and does not wait.
static inline sm_status opencl_look_at(const char *device_id, cl_event event, bool *is_done) {
    cl_int state = CL_QUEUED;
    const cl_int code = opencl.clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL);
    *is_done = code != CL_SUCCESS || state <= CL_COMPLETE;
    return opencl_check(device_id, "clGetEventInfo", code != CL_SUCCESS ? code : state < 0 ? state : CL_SUCCESS);
}

// NULL is fine.
static inline void opencl_release_event(cl_event event) {
    if (event != NULL) {
        opencl.clReleaseEvent(event);
    }
}
static inline void opencl_release_buffer(cl_mem buffer) {
    if (buffer != NULL) {
        opencl.clReleaseMemObject(buffer);
    }
}
static inline void opencl_release_kernel(cl_kernel kernel) {
    if (kernel != NULL) {
        opencl.clReleaseKernel(kernel);
    }
}
static inline void opencl_end_buffer(cl_mem *buffer) { opencl_release_buffer(*buffer); }
static inline void opencl_end_kernel(cl_kernel *kernel) { opencl_release_kernel(*kernel); }
static inline void opencl_release_queue(cl_command_queue queue) {
    if (queue != NULL) {
        opencl.clReleaseCommandQueue(queue);
    }
}
static inline void opencl_release_context(cl_context context) {
    if (context != NULL) {
        opencl.clReleaseContext(context);
    }
}
