// links.c: joining by the cards' own links, with the driver alone: each process maps the others' memory (shared.c), and
// copies from and to it by its card's copy engines, which work next to kernels. Processes tell each other by words in that
// memory.
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
    SM_TRY(opencl_peers_find_card(device));
    return cuda.stream_write_value != NULL
               ? SM_OK
               : sm_fail(SM_ERR_UNSUPPORTED, "CUDA's driver has no streams that write a number");
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

cuda_address opencl_word_of(const opencl_peers *p, int whose, opencl_matter matter, int writer) {
    return p->words.linked[whose].address + opencl_word_at(OPENCL_OWN_WORDS + writer * OPENCL_MATTERS + (int)matter);
}

// --- joining -------------------------------------------------------------------------------------

// Whether the words that all others write here, and those that were written to them, have the number.
static sm_status have_number(const opencl_device *device, uint32_t number, bool *have) {
    const opencl_peers *p = device->peers;
    *have = true;
    for (int rank = 0; rank < p->n_processes; rank++) {
        const cuda_address words[] = {opencl_word_of(p, p->rank, OPENCL_TRIED, rank),
                                      opencl_word_of(p, rank, OPENCL_TRIED, p->rank)};
        for (int i = 0; i < 2; i++) {
            uint32_t seen = 0;
            SM_TRY(cuda_check(id_of(device), "cuMemcpyDtoH", cuda.copy_to_host(&seen, words[i], sizeof seen)));
            *have = *have && seen == number;
        }
    }
    return SM_OK;
}

// Each tells all others a number by a stream, and looks for theirs.
static sm_status try_links(opencl_device *device) {
    enum { NUMBER = 0x5EED, TRIAL_NS = 1000000000 };
    static const struct timespec rest = {.tv_nsec = 100000};
    const int64_t until_ns = sm_now_ns() + TRIAL_NS;
    const opencl_peers *p = device->peers;
    bool have = false;
    for (int rank = 0; rank < p->n_processes; rank++) {
        const cuda_address word = opencl_word_of(p, rank, OPENCL_TRIED, p->rank);
        SM_TRY(cuda_check(id_of(device), "cuStreamWriteValue32", cuda.stream_write_value(p->stream, word, NUMBER, 0)));
    }
    while (!have && sm_now_ns() < until_ns) {
        SM_TRY(have_number(device, NUMBER, &have));
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
    SM_TRY(host_meet(name, p->rank, p->n_processes, l->connections));
    SM_TRY(cuda_check(id_of(device), "cuCtxSetCurrent", cuda.context_set(p->context)));
    SM_TRY(cuda_check(id_of(device), "cuStreamCreate", cuda.stream_create(&l->pushing, 1)));
    SM_TRY(opencl_link(device, &p->words));
    return try_links(device);
}

sm_status opencl_links_join(sm_device *base, const unsigned char id[SM_COLLECTIVES_ID_BYTES], int rank,
                            int n_processes) {
    opencl_device *device = (opencl_device *)base;
    opencl_peers *p = device->peers;
    SM_TRY(opencl_peers_begin(device, rank, n_processes));
    p->links = calloc(1, sizeof *p->links);
    if (p->links == NULL) {
        return sm_fail(SM_ERR_OOM, "%s: no memory to reach other devices", id_of(device));
    }
    p->is_busy = true;
    const sm_status status = join(device, p->links, (const char *)id);
    p->is_busy = false;
    return status;
}

void opencl_links_describe(const sm_device *device, char text[SM_COLLECTIVES_TEXT_SIZE]) {
    (void)device;
    snprintf(text, SM_COLLECTIVES_TEXT_SIZE, "the cards' own links, by their copy engines");
}

// --- the end -------------------------------------------------------------------------------------

// Only threads wait for other processes, and look at this.
void opencl_links_abort(sm_device *base) {
    opencl_peers *p = ((opencl_device *)base)->peers;
    if (p != NULL) {
        atomic_store(&p->is_aborted, true);
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
    if (l->pushing != NULL) {
        (void)cuda.stream_destroy(l->pushing);
    }
    free(l->connections);
    free(l);
    p->links = NULL;
}
