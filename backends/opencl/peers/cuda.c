#include "backends/opencl/peers/cuda.h"

#include "os/library.h"

cuda_functions cuda;

static const char *load(void) {
    void *library = os_library_open("libcuda.so.1");
    if (library == NULL) {
        return "there is no libcuda.so.1, which comes with NVIDIA's driver";
    }
    const char *missing = NULL;
#define X(name, symbol, arguments) missing = os_library_function(library, symbol, &cuda.name) ? missing : symbol;
    CUDA_FUNCTION_LIST(X)
#undef X
    if (missing != NULL) {
        return "its libcuda.so.1 is too old: use NVIDIA's driver 470 or newer";
    }
#define X(name, symbol, arguments) (void)os_library_function(library, symbol, &cuda.name);
    CUDA_ORDER_FUNCTION_LIST(X)
#undef X
    return cuda.init(0) == CUDA_SUCCESS ? NULL : "cuInit fails: see nvidia-smi";
}

sm_status cuda_load(void) {
    static bool tried = false;
    static const char *trouble;
    if (!tried) {
        trouble = load();
        tried = true;
    }
    return trouble == NULL ? SM_OK : sm_fail(SM_ERR_UNSUPPORTED, "%s", trouble);
}

sm_status cuda_check(const char *device_id, const char *doing, int code) {
    const char *name = NULL;
    if (code == CUDA_SUCCESS) {
        return SM_OK;
    }
    (void)cuda.get_error_name(code, &name);
    return sm_fail(code == CUDA_OUT_OF_MEMORY ? SM_ERR_OOM : SM_ERR_DEVICE, "%s: %s: %s (%d)", device_id, doing,
                   name != NULL ? name : "CUDA error", code);
}
