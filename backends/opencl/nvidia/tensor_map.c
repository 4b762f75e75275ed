// tensor_map.c: tensor maps, by which a card's TMA copies tiles of matrices.
//
// A map is 128 bytes. Their layout is not documented; it is what cuTensorMapEncodeTiled and the instruction
// tensormap.replace make, little-endian:
//
//   0   address of the first element, 8 bytes
//   8   (dimensions - 1) << 4 | element type << 7 | swizzle << 13, 4 bytes
//   12  distances in bytes / 16 of dimensions 1, 2, .., 4 bytes each
//   32  sizes - 1 of dimensions 0, 1, .., 4 bytes each
//   55  sizes of a box - 1, a byte each
//
// Dimension 0 lies along rows. The swizzle is that of 128 bytes: in a box, rows of 128 bytes lie one after another,
// and a row's chunk of 16 bytes is at its number XOR the row's.

#include "backends/opencl/binders/binders.h"
#include "backends/opencl/nvidia/tensor.h"

static void put(unsigned char *map, size_t at, uint64_t value, size_t n_bytes) { memcpy(map + at, &value, n_bytes); }

void opencl_encode_map(const opencl_tensor_map *m, uint64_t address, unsigned char map[OPENCL_MAP_BYTES]) {
    enum { ADDRESS = 0, KIND = 8, DISTANCES = 12, SIZES = 32, BOX = 55 };
    enum { TYPE_F16 = 6, TYPE_F32 = 7, TYPE_BF16 = 10, SWIZZLE_128 = 3 };
    const uint64_t type = m->dtype == SM_F16 ? TYPE_F16 : m->dtype == SM_BF16 ? TYPE_BF16 : TYPE_F32;
    uint64_t distance = sm_dtype_size(m->dtype);
    memset(map, 0, OPENCL_MAP_BYTES);
    put(map, ADDRESS, address, 8);
    put(map, KIND, (uint64_t)(m->n_dims - 1) << 4 | type << 7 | SWIZZLE_128 << 13, 4);
    for (int i = 0; i < m->n_dims; i++) {
        distance *= (uint64_t)(i == 0 && m->row_elems > 0 ? m->row_elems : m->dims[i]);
        if (i + 1 < m->n_dims) {
            put(map, DISTANCES + 4 * (size_t)i, distance >> 4, 4);
        }
        put(map, SIZES + 4 * (size_t)i, (uint64_t)m->dims[i] - 1, 4);
        put(map, BOX + (size_t)i, (uint64_t)m->box[i] - 1, 1);
    }
}

// --- addresses ------------------------------------------------------------------------------------------

// OpenCL 1.2 has no call for an address: a kernel returns it. Buffers do not move.
sm_status opencl_find_address(opencl_device *device, cl_mem buffer, uint64_t *address) {
    const size_t one = 1;
    cl_int code = CL_SUCCESS;
    SM_AT_END(opencl_end_kernel) cl_kernel kernel = NULL;
    SM_AT_END(opencl_end_buffer)
    cl_mem result = opencl.clCreateBuffer(device->context, CL_MEM_READ_WRITE, sizeof *address, NULL, &code);
    SM_TRY(opencl_check(id_of(device), "clCreateBuffer", code));
    SM_TRY(opencl_get_kernel(device, "address", "", "find_address", &kernel));
    SM_TRY(
        opencl_set_arguments(device, kernel, (opencl_argument[]){OPENCL_ARGUMENT(buffer), OPENCL_ARGUMENT(result)}, 2));
    SM_TRY(OPENCL_CALL(device, clEnqueueNDRangeKernel, device->queue, kernel, 1, NULL, &one, &one, 0, NULL, NULL));
    return OPENCL_CALL(device, clEnqueueReadBuffer, device->queue, result, CL_TRUE, 0, sizeof *address, address, 0,
                       NULL, NULL);
}

// --- an executable's maps ---------------------------------------------------------------------------------

size_t opencl_map_bytes(const sm_plan *plan) {
    sm_op op;
    size_t n = 0;
    for (int i = 0; i < 2 * plan->n_ops; i++) {
        n += opencl_op_at(plan, i, &op);
    }
    return n * OPENCL_MOST_MAPS * OPENCL_MAP_BYTES;
}

// The family's data for an executable.
typedef struct {
    cl_mem buffer; // of all maps
    size_t used_bytes;
    uint64_t addresses[]; // of the arenas and the scratch, 0 if unknown
} map_room;

static sm_status make_room(opencl_executable *e) {
    cl_int code = CL_SUCCESS;
    const size_t n_bytes = opencl_map_bytes(e->base.plan);
    map_room *room = sm_calloc(1, sizeof *room + ((size_t)e->n_arenas + 1) * sizeof room->addresses[0]);
    e->family_data = room;
    room->buffer = opencl.clCreateBuffer(e->device->context, CL_MEM_READ_WRITE, n_bytes, NULL, &code);
    SM_TRY(opencl_check(id_of(e->device), "clCreateBuffer, tensor maps", code));
    e->base.memory_bytes += n_bytes;
    return SM_OK;
}

void opencl_free_maps(opencl_executable *e) {
    const map_room *room = e->family_data;
    if (room != NULL && room->buffer != NULL) {
        opencl.clReleaseMemObject(room->buffer);
    }
    free(e->family_data);
}

// The address of the map's matrix.
static sm_status find_matrix(const opencl_binder *b, const opencl_tensor_map *m, uint64_t *address) {
    opencl_executable *e = b->e;
    const int64_t scratch_at = (int64_t)opencl_scratch_at(b) + m->scratch_offset;
    map_room *room = e->family_data;
    const sm_tensor *t = m->tensor != SM_NO_TENSOR ? &e->base.plan->tensors[m->tensor] : NULL;
    uint64_t *known = &room->addresses[t != NULL ? t->arena : e->n_arenas];
    if (*known == 0) {
        SM_TRY(opencl_find_address(e->device, t != NULL ? e->arenas[t->arena] : e->scratch, known));
    }
    *address = *known + (t != NULL ? (uint64_t)t->offset_bytes : (uint64_t)scratch_at * sizeof(float));
    return SM_OK;
}

static sm_status add_maps(opencl_binder *b, const opencl_tensor_map *maps, int n) {
    opencl_executable *e = b->e;
    unsigned char bytes[OPENCL_MOST_MAPS * OPENCL_MAP_BYTES];
    const size_t n_bytes = (size_t)n * OPENCL_MAP_BYTES;
    SM_TRY(e->family_data == NULL ? make_room(e) : SM_OK);
    map_room *room = e->family_data;
    for (int i = 0; i < n; i++) {
        uint64_t address = 0;
        SM_TRY(find_matrix(b, &maps[i], &address));
        opencl_encode_map(&maps[i], address, bytes + (size_t)i * OPENCL_MAP_BYTES);
    }
    OPENCL_ARGS(b, arg_buffer(room->buffer), arg_ulong(room->used_bytes));
    room->used_bytes += n_bytes;
    return opencl_check(id_of(e->device), "clEnqueueWriteBuffer, tensor maps",
                        opencl.clEnqueueWriteBuffer(e->device->queue, room->buffer, CL_TRUE, room->used_bytes - n_bytes,
                                                    n_bytes, bytes, 0, NULL, NULL));
}

void opencl_arg_maps(opencl_binder *b, const opencl_tensor_map *maps, int n) {
    if (b->status == SM_OK && b->e->wanted == NULL) {
        const sm_status status = add_maps(b, maps, n);
        b->status = b->status != SM_OK ? b->status : status;
    }
}

opencl_tensor_map opencl_map_rows(sm_dtype dtype, int64_t B, int64_t T, int64_t n_channels) {
    return (opencl_tensor_map){
        .dtype = dtype, .n_dims = 3, .dims = {n_channels, T, B}, .box = {OPENCL_BOX_CHANNELS, OPENCL_BOX_ROWS, 1}};
}
