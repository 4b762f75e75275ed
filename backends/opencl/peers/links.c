// links.c: joining by the cards' own links, with the driver alone: each process maps the others' memory (shared.c), and
// copies from and to it by its card's copy engines, which work next to kernels. Processes and their streams tell each
// other by words in the host's memory, which each process can look at without a call of the driver.
#include <unistd.h>

#include "backends/host/descriptors.h"
#include "backends/opencl/peers/peers.h"
#include "clock.h"
#include "os/memory.h"
#include "os/os.h"

sm_status opencl_links_find(sm_device *device, SM_UNUSED const char *library) {
    SM_TRY(opencl_peers_find_card(device));
    return cuda.stream_write_value != NULL
               ? SM_OK
               : sm_fail(SM_ERR_UNSUPPORTED, "CUDA's driver has no streams that write a number");
}

sm_status opencl_links_make_id(sm_device *device, unsigned char id[SM_COLLECTIVES_ID_BYTES]) {
    unsigned char drawn[16];
    memset(id, 0, SM_COLLECTIVES_ID_BYTES);
    SM_FAIL_IF(!os_draw(drawn, sizeof drawn), SM_ERR_UNSUPPORTED, "%s: the system has no random numbers",
               device->info.id);
    int n = snprintf((char *)id, SM_COLLECTIVES_ID_BYTES, "stepmark-");
    for (size_t i = 0; i < sizeof drawn; i++) {
        n += snprintf((char *)id + n, SM_COLLECTIVES_ID_BYTES - (size_t)n, "%02x", drawn[i]);
    }
    return SM_OK;
}

// --- words in the host's memory ------------------------------------------------------------------

// Maps the words of a process, for itself and for streams.
static sm_status map(const opencl_device *device, int descriptor, opencl_told *told) {
    enum { PORTABLE = 1, HAS_ADDRESS = 2 };
    const size_t size_bytes = device->peers->links->told_bytes;
    void *memory = os_map_file(descriptor, size_bytes);
    SM_FAIL_IF(memory == NULL, SM_ERR_OOM, "%s: no memory for words", id_of(device));
    sm_status status =
        cuda_check(id_of(device), "cuMemHostRegister", cuda.host_register(memory, size_bytes, PORTABLE | HAS_ADDRESS));
    if (status != SM_OK) {
        os_unmap(memory, size_bytes);
        return status;
    }
    told->words = memory;
    return cuda_check(id_of(device), "cuMemHostGetDevicePointer", cuda.host_get_address(&told->address, memory, 0));
}

static sm_status receive(const opencl_device *device, int rank) {
    const opencl_links *l = device->peers->links;
    uint64_t size_bytes = 0;
    SM_CLOSED int descriptor = -1;
    SM_TRY(host_receive_descriptor(l->connections[rank], &descriptor, &size_bytes));
    SM_FAIL_IF(size_bytes != l->told_bytes, SM_ERR_INTERNAL,
               "%s: rank %d has words of %llu bytes, and this process of %zu", id_of(device), rank,
               (unsigned long long)size_bytes, l->told_bytes);
    return map(device, descriptor, &l->told[rank]);
}

// All processes map the words of all.
static sm_status share_words(const opencl_device *device) {
    const opencl_peers *p = device->peers;
    opencl_links *l = p->links;
    const size_t page = os_page_bytes();
    l->told_bytes = (opencl_word_at(OPENCL_MATTERS * p->n_processes) + page - 1) / page * page;
    l->told = sm_calloc((size_t)p->n_processes, sizeof *l->told);
    SM_CLOSED int own = os_open_nameless();
    const bool is_there = own >= 0 && ftruncate(own, (off_t)l->told_bytes) == 0;
    const sm_status mapped =
        is_there ? map(device, own, &l->told[p->rank]) : sm_fail(SM_ERR_OOM, "%s: no memory for words", id_of(device));
    sm_status status = SM_OK;
    for (int rank = 0; rank < p->n_processes && status == SM_OK; rank++) {
        const int sent = mapped == SM_OK ? own : -1;
        status = rank == p->rank ? SM_OK : host_send_descriptor(l->connections[rank], sent, l->told_bytes);
    }
    for (int rank = 0; rank < p->n_processes && mapped == SM_OK && status == SM_OK; rank++) {
        status = rank == p->rank ? SM_OK : receive(device, rank);
    }
    return mapped != SM_OK ? mapped : status;
}

static void leave(opencl_peers *p) {
    opencl_links *l = p->links;
    if (l->connections != NULL) {
        host_part(l->connections, p->n_processes);
    }
    if (l->pushing != NULL) {
        (void)cuda.stream_destroy(l->pushing);
    }
    for (int rank = 0; l->told != NULL && rank < p->n_processes; rank++) {
        if (l->told[rank].words != NULL) {
            (void)cuda.host_unregister((void *)l->told[rank].words);
            os_unmap((void *)l->told[rank].words, l->told_bytes);
        }
    }
    free(l->told);
    free(l->connections);
    free(l);
    p->links = NULL;
}

// --- joining -------------------------------------------------------------------------------------

// The address in the card of rank `whose`.
static cuda_address trial_word(const opencl_peers *p, int whose, int writer) {
    return p->words.linked[whose].address + opencl_word_at(OPENCL_TRIED + writer);
}

// Whether the words that all others write here, and those that were written to them, have the number.
static sm_status have_number(const opencl_device *device, uint32_t number, bool *have) {
    const opencl_peers *p = device->peers;
    *have = true;
    for (int rank = 0; rank < p->n_processes; rank++) {
        const cuda_address words[] = {trial_word(p, p->rank, rank), trial_word(p, rank, p->rank)};
        for (int i = 0; i < 2; i++) {
            uint32_t seen = 0;
            SM_TRY(cuda_check(id_of(device), "cuMemcpyDtoH", cuda.copy_to_host(&seen, words[i], sizeof seen)));
            *have = *have && seen == number;
        }
        *have = *have && atomic_load(opencl_told_word(p, p->rank, OPENCL_MET, rank)) == number;
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
        const cuda_address words[] = {trial_word(p, rank, p->rank),
                                      p->links->told[rank].address + opencl_told_at(OPENCL_MET, p->rank)};
        for (int i = 0; i < 2; i++) {
            SM_TRY(cuda_check(id_of(device), "cuStreamWriteValue32",
                              cuda.stream_write_value(p->stream, words[i], NUMBER, 0)));
        }
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
    l->connections = sm_malloc((size_t)p->n_processes * sizeof *l->connections);
    SM_TRY(host_meet(name, p->rank, p->n_processes, l->connections));
    SM_TRY(cuda_check(id_of(device), "cuCtxSetCurrent", cuda.context_set(p->context)));
    SM_TRY(cuda_check(id_of(device), "cuStreamCreate", cuda.stream_create(&l->pushing, 1)));
    SM_TRY(share_words(device));
    SM_TRY(opencl_link(device, &p->words));
    return try_links(device);
}

sm_status opencl_links_join(sm_device *base, const unsigned char id[SM_COLLECTIVES_ID_BYTES], int rank,
                            int n_processes) {
    opencl_device *device = (opencl_device *)base;
    opencl_peers *p = device->peers;
    SM_TRY(opencl_peers_begin(device, rank, n_processes));
    p->links = sm_calloc(1, sizeof *p->links);
    p->links->leave = leave;
    p->is_busy = true;
    const sm_status status = join(device, p->links, (const char *)id);
    p->is_busy = false;
    return status;
}

void opencl_links_describe(SM_UNUSED const sm_device *device, char text[SM_COLLECTIVES_TEXT_SIZE]) {
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
