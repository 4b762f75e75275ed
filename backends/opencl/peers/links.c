// links.c: joining by the cards' own links, with the driver alone: OpenCL imports the memory of the other processes'
// cards, and kernels read and write it. Kernels of several processes wait for each other by words in that memory, so no
// processor takes part in the order.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "backends/host/descriptors.h"
#include "backends/opencl/peers/peers.h"
#include "clock.h"
#include "os/os.h"

sm_status opencl_links_find(sm_device *device, const char *library) {
    (void)library;
    return opencl_peers_find_card(device);
}

sm_status opencl_links_make_id(sm_device *device, unsigned char id[SM_COLLECTIVES_ID_BYTES]) {
    unsigned char drawn[16];
    memset(id, 0, SM_COLLECTIVES_ID_BYTES);
    if (!os_draw(drawn, sizeof drawn)) {
        return sm_fail(SM_ERR_UNSUPPORTED, "%s: the system has no random numbers", device->info.id);
    }
    int n = snprintf((char *)id, SM_COLLECTIVES_ID_BYTES, "stepmark-");
    for (size_t i = 0; i < sizeof drawn; i++) {
        n += snprintf((char *)id + n, SM_COLLECTIVES_ID_BYTES - (size_t)n, "%02x", drawn[i]);
    }
    return SM_OK;
}

// --- words ---------------------------------------------------------------------------------------

static cl_mem words_of(const opencl_peers *p, int rank) {
    return p->words.buffer_of[rank < p->n_processes ? rank : p->rank];
}

static sm_status enqueue(const opencl_device *device, cl_command_queue queue, cl_kernel kernel, cl_event *event) {
    const size_t n_items = OPENCL_MOST_LINKED;
    SM_TRY(opencl_check(id_of(device), "clEnqueueNDRangeKernel",
                        opencl.clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &n_items, &n_items, 0, NULL, event)));
    return opencl_check(id_of(device), "clFlush", opencl.clFlush(queue));
}

sm_status opencl_tell_all(opencl_device *device, cl_command_queue queue, opencl_matter matter, uint32_t number) {
    const opencl_peers *p = device->peers;
    const cl_uint n = (cl_uint)p->n_processes;
    const cl_ulong at = opencl_word_of(matter, p->rank);
    const cl_uint value = number;
    cl_mem words[OPENCL_MOST_LINKED];
    opencl_argument arguments[3 + OPENCL_MOST_LINKED] = {OPENCL_ARGUMENT(n), OPENCL_ARGUMENT(at),
                                                         OPENCL_ARGUMENT(value)};
    for (int rank = 0; rank < OPENCL_MOST_LINKED; rank++) {
        words[rank] = words_of(p, rank);
        arguments[3 + rank] = (opencl_argument){sizeof(cl_mem), &words[rank]};
    }
    SM_TRY(opencl_set_arguments(device, p->links->tell, arguments, 3 + OPENCL_MOST_LINKED));
    return enqueue(device, queue, p->links->tell, NULL);
}

sm_status opencl_await_all(opencl_device *device, cl_command_queue queue, opencl_matter matter, uint32_t number,
                           cl_event *event) {
    const opencl_peers *p = device->peers;
    const cl_uint n = (cl_uint)p->n_processes;
    const cl_ulong at = opencl_word_of(matter, 0), stride = opencl_word_of(matter, 1) - at;
    const cl_uint value = number;
    const opencl_argument arguments[] = {OPENCL_ARGUMENT(n), OPENCL_ARGUMENT(at), OPENCL_ARGUMENT(stride),
                                         OPENCL_ARGUMENT(value), OPENCL_ARGUMENT(p->words.buffer)};
    SM_TRY(opencl_set_arguments(device, p->links->await, arguments, 5));
    return enqueue(device, queue, p->links->await, event);
}

sm_status opencl_have_all(const opencl_device *device, opencl_matter matter, uint32_t number, bool *have) {
    const opencl_peers *p = device->peers;
    *have = true;
    for (int rank = 0; rank < p->n_processes && *have; rank++) {
        uint32_t seen = 0;
        const cuda_address at = p->words.address + opencl_word_of(matter, rank) * sizeof seen;
        SM_TRY(cuda_check(id_of(device), "cuMemcpyDtoH", cuda.copy_to_host(&seen, at, sizeof seen)));
        *have = (int32_t)(seen - number) >= 0;
    }
    return SM_OK;
}

// --- joining -------------------------------------------------------------------------------------

static sm_status get_kernels(opencl_device *device, opencl_links *l) {
    static const char stem[] = "links";
    const char *options = device->facts.compute_capability > 0 ? "-DDATA_BF16 -DPTX" : "-DDATA_BF16";
    SM_TRY(opencl_get_kernel(device, stem, options, "links_tell", &l->tell));
    SM_TRY(opencl_get_kernel(device, stem, options, "links_await", &l->await));
    SM_TRY(opencl_get_kernel(device, stem, options, "links_sum", &l->sum));
    SM_TRY(opencl_get_kernel(device, stem, options, "links_sum_rounded", &l->sum_rounded));
    return opencl_get_kernel(device, stem, options, "links_give", &l->give);
}

// Each tells all others a number, and sees those of all.
static sm_status try_links(opencl_device *device) {
    enum { NUMBER = 0x5EED, TRIAL_NS = 1000000000 };
    static const struct timespec rest = {.tv_nsec = 100000};
    const int64_t until_ns = sm_now_ns() + TRIAL_NS;
    bool have = false;
    SM_TRY(opencl_tell_all(device, device->queue, OPENCL_TRIED, NUMBER));
    SM_TRY(opencl_check(id_of(device), "clFinish", opencl.clFinish(device->queue)));
    while (!have && sm_now_ns() < until_ns) {
        SM_TRY(opencl_have_all(device, OPENCL_TRIED, NUMBER, &have));
        nanosleep(&rest, NULL);
    }
    return have ? SM_OK
                : sm_fail(SM_ERR_UNSUPPORTED, "%s: what the other cards of this host write does not arrive",
                          id_of(device));
}

static sm_status join(opencl_device *device, opencl_links *l, const char *name) {
    opencl_peers *p = device->peers;
    l->connections = malloc((size_t)p->n_processes * sizeof *l->connections);
    if (l->connections == NULL) {
        return sm_fail(SM_ERR_OOM, "%s: no memory for %d processes", id_of(device), p->n_processes);
    }
    l->has_queues = !device->facts.is_cpu;
    SM_TRY(host_meet(name, p->rank, p->n_processes, l->connections));
    SM_TRY(opencl_link(device, &p->words));
    return try_links(device);
}

sm_status opencl_links_join(sm_device *base, const unsigned char id[SM_COLLECTIVES_ID_BYTES], int rank,
                            int n_processes) {
    opencl_device *device = (opencl_device *)base;
    opencl_peers *p = device->peers;
    if (n_processes > OPENCL_MOST_LINKED) {
        return sm_fail(SM_ERR_UNSUPPORTED, "%d processes: links join %d at most", n_processes, OPENCL_MOST_LINKED);
    }
    SM_TRY(opencl_peers_begin(device, rank, n_processes));
    p->links = calloc(1, sizeof *p->links);
    if (p->links == NULL) {
        return sm_fail(SM_ERR_OOM, "%s: no memory to reach other devices", id_of(device));
    }
    SM_TRY(get_kernels(device, p->links));
    p->is_busy = true;
    const sm_status status = join(device, p->links, (const char *)id);
    p->is_busy = false;
    return status;
}

void opencl_links_describe(const sm_device *device, char text[SM_COLLECTIVES_TEXT_SIZE]) {
    (void)device;
    snprintf(text, SM_COLLECTIVES_TEXT_SIZE, "the cards' own links");
}

// --- the end -------------------------------------------------------------------------------------

// No kernel waits any more: every word becomes larger than what any waits for.
void opencl_links_abort(sm_device *base) {
    enum { FAR = 1 << 30 };
    opencl_peers *p = ((opencl_device *)base)->peers;
    if (p == NULL || p->links == NULL || atomic_exchange(&p->is_aborted, true)) {
        return;
    }
    const uint32_t far = p->links->n_begun + FAR;
    (void)cuda.context_set(p->context);
    for (int matter = 0; matter < OPENCL_MATTERS; matter++) {
        for (int rank = 0; rank < p->n_processes; rank++) {
            const cuda_address at = p->words.address + opencl_word_of((opencl_matter)matter, rank) * sizeof far;
            (void)cuda.copy_from_host(at, &far, sizeof far);
        }
    }
}

void opencl_links_leave(opencl_peers *p) {
    opencl_links *l = p->links;
    if (l == NULL) {
        return;
    }
    if (l->connections != NULL) {
        host_part(l->connections, p->n_processes);
    }
    const cl_kernel kernels[] = {l->tell, l->await, l->sum, l->sum_rounded, l->give};
    for (size_t i = 0; i < sizeof kernels / sizeof kernels[0]; i++) {
        opencl_release_kernel(kernels[i]);
    }
    free(l->connections);
    free(l);
    p->links = NULL;
}
