// platform.c: the devices of all platforms, in the order in which the loader gives them.

#include "os/beside.h"
#include "backends/opencl/program/program.h"
#include "os/library.h"

enum { MAX_PLATFORMS = 16, MAX_DEVICES = 64 };

static opencl_facts devices[MAX_DEVICES];
static int n_devices;
static const char *missing = "";

static void get_text(cl_device_id id, cl_device_info what, char *text, size_t size_bytes) {
    char value[1024] = "";
    opencl.clGetDeviceInfo(id, what, sizeof value - 1, value, NULL); // fails: the text stays empty
    value[sizeof value - 1] = '\0';
    const char *start = value + strspn(value, " ");
    size_t length = strlen(start);
    length = length < size_bytes - 1 ? length : size_bytes - 1;
    memcpy(text, start, length);
    text[length] = '\0';
}

// A number of one of OpenCL's integer types; 0 if unknown.
static uint64_t get_number(cl_device_id id, cl_device_info what) {
    uint64_t value = 0; // little-endian machines: shorter types fill the lower bytes
    return opencl.clGetDeviceInfo(id, what, sizeof value, &value, NULL) == CL_SUCCESS ? value : 0;
}

// A required amount; 0 if the driver does not report it, or sets all bits instead.
static uint64_t get_amount(cl_device_id id, cl_device_info what) {
    const uint64_t value = get_number(id, what);
    return value == UINT32_MAX || value == UINT64_MAX ? 0 : value;
}

// The fewest work-items that a group of every kernel fits: those of the sizes in launch.h.
enum { LEAST_GROUP = 128 };

// Facts that the driver must report for a usable device: the missing one, or "".
static const char *find_trouble(const opencl_facts *f) {
    if (get_number(f->id, CL_DEVICE_AVAILABLE) == 0 || get_number(f->id, CL_DEVICE_COMPILER_AVAILABLE) == 0) {
        return "the driver says that the device, or its compiler, is not available";
    }
    if (f->memory_bytes == 0 || f->max_alloc_bytes == 0) {
        return "the driver does not say how much memory the device has; check the driver";
    }
    if (f->n_units == 0 || f->max_group == 0) {
        return "the driver does not say how many work-items the device runs; check the driver";
    }
    if (f->max_group < LEAST_GROUP) {
        return "needs work-groups of 128 work-items, and the device takes smaller ones alone";
    }
    return "";
}

bool opencl_has_extension(cl_device_id id, const char *name) {
    size_t size_bytes = 0;
    if (opencl.clGetDeviceInfo(id, CL_DEVICE_EXTENSIONS, 0, NULL, &size_bytes) != CL_SUCCESS || size_bytes == 0) {
        return false;
    }
    SM_FREED char *text = sm_calloc(size_bytes + 1, 1);
    return opencl.clGetDeviceInfo(id, CL_DEVICE_EXTENSIONS, size_bytes, text, NULL) == CL_SUCCESS &&
           strstr(text, name) != NULL;
}

static void find_facts(cl_platform_id platform, cl_device_id id, opencl_facts *f) {
    enum { COMPUTE_CAPABILITY_MAJOR_NV = 0x4000, COMPUTE_CAPABILITY_MINOR_NV = 0x4001, DEVICE_UUID_KHR = 0x106A };
    f->platform = platform;
    f->id = id;
    opencl.clGetPlatformInfo(platform, CL_PLATFORM_NAME, sizeof f->platform_name - 1, f->platform_name, NULL);
    get_text(id, CL_DEVICE_NAME, f->name, sizeof f->name);
    get_text(id, CL_DRIVER_VERSION, f->driver, sizeof f->driver);
    get_text(id, CL_DEVICE_VERSION, f->version, sizeof f->version);
    f->has_uuid = opencl.clGetDeviceInfo(id, DEVICE_UUID_KHR, sizeof f->uuid, f->uuid, NULL) == CL_SUCCESS;
    f->is_cpu = (get_number(id, CL_DEVICE_TYPE) & CL_DEVICE_TYPE_CPU) != 0;
    f->has_local_memory = get_number(id, CL_DEVICE_LOCAL_MEM_TYPE) == CL_LOCAL;
    f->shares_host_memory = get_number(id, CL_DEVICE_HOST_UNIFIED_MEMORY) != 0;
    f->has_subgroups = opencl_has_extension(id, "cl_khr_subgroups") || opencl_has_extension(id, "cl_intel_subgroups");
    f->has_fp16 = opencl_has_extension(id, "cl_khr_fp16");
    if (opencl_has_extension(id, "cl_nv_device_attribute_query")) { // any vendor's
        f->compute_capability =
            (int)(10 * get_amount(id, COMPUTE_CAPABILITY_MAJOR_NV) + get_amount(id, COMPUTE_CAPABILITY_MINOR_NV));
    }
    // PoCL compiles a kernel for a work-group size when it is first enqueued, and caches that on disk. Asking for a
    // program's binary compiles every kernel again, for any size, which takes as long again.
    f->keeps_builds = strcmp(f->platform_name, "Portable Computing Language") == 0;
    f->vector_width = (int)get_number(id, CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT);
    f->n_units = (int)get_amount(id, CL_DEVICE_MAX_COMPUTE_UNITS);
    f->clock_mhz = (int)get_amount(id, CL_DEVICE_MAX_CLOCK_FREQUENCY);
    f->max_group = (size_t)get_amount(id, CL_DEVICE_MAX_WORK_GROUP_SIZE);
    f->memory_bytes = (size_t)get_amount(id, CL_DEVICE_GLOBAL_MEM_SIZE);
    f->max_alloc_bytes = (size_t)get_amount(id, CL_DEVICE_MAX_MEM_ALLOC_SIZE);
    f->local_bytes = (size_t)get_amount(id, CL_DEVICE_LOCAL_MEM_SIZE);
    snprintf(f->trouble, sizeof f->trouble, "%s", find_trouble(f));
    f->is_usable = f->trouble[0] == '\0';
}

static void list_all(void) {
    cl_platform_id platforms[MAX_PLATFORMS];
    cl_uint n = 0;
    if (!opencl_load()) {
        missing = os_no_opencl;
        return;
    }
    if (opencl.clGetPlatformIDs(MAX_PLATFORMS, platforms, &n) != CL_SUCCESS || n == 0) {
        missing = "no OpenCL platform; install a driver: pocl-opencl-icd for processors, the vendor's for a card";
        return;
    }
    for (cl_uint i = 0; i < n && i < MAX_PLATFORMS; i++) {
        cl_device_id ids[MAX_DEVICES];
        cl_uint n_ids = 0;
        if (opencl.clGetDeviceIDs(platforms[i], CL_DEVICE_TYPE_ALL, MAX_DEVICES, ids, &n_ids) != CL_SUCCESS) {
            continue; // a platform without devices
        }
        for (cl_uint k = 0; k < n_ids && k < MAX_DEVICES && n_devices < MAX_DEVICES; k++) {
            opencl_facts *f = &devices[n_devices++];
            find_facts(platforms[i], ids[k], f);
            f->platform_index = (int)i;
            f->device_index = (int)k;
        }
    }
    if (n_devices == 0) {
        missing = "no device on any OpenCL platform; check the driver, or install pocl-opencl-icd for processors, "
                  "which needs a HOME that it can write to, or POCL_CACHE_DIR";
    }
}

static os_beside listing;

static void *list(SM_UNUSED void *ctx) {
    static bool listed = false;
    if (!listed) {
        list_all();
        listed = true;
    }
    return NULL;
}

void opencl_begin_listing(void) { os_begin_beside(&listing, list, NULL); }

int opencl_n_devices(const char **reason) {
    (void)os_await_beside(&listing);
    (void)list(NULL);
    *reason = missing;
    return n_devices;
}

const opencl_facts *opencl_device_facts(int index) { return &devices[index]; }

bool (*opencl_begin_early)(const opencl_facts *facts);

static struct {
    cl_device_id id;
    cl_context context; // NULL: none
} kept;

bool opencl_keep_context(const opencl_facts *facts, cl_context context) {
    if (kept.context != NULL) {
        return false;
    }
    kept.id = facts->id;
    kept.context = context;
    return true;
}

cl_context opencl_take_context(const opencl_facts *facts) {
    cl_context context = kept.id == facts->id ? kept.context : NULL;
    if (context != NULL) {
        kept.context = NULL;
    }
    return context;
}
