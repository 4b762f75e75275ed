#include "bench/profile/profile.h"

#include <fcntl.h>
#include <unistd.h>

#include "clock.h"
#include "bench/sensors/sensors.h"
#include "os/memory.h"

enum { N_PLACES = 1024, MAX_PROCESSORS = 1024, STAT_BYTES = 256 << 10 };

// The values kept of each look, by their names in the series.
#define SERIES_LIST(X)                         \
    X(AT_cpu, "cpu")                           \
    X(AT_rss_bytes, "rss_bytes")               \
    X(AT_gpu, "gpu")                           \
    X(AT_gpu_memory_bytes, "gpu_memory_bytes") \
    X(AT_power_w, "power_w")

enum { SERIES_LIST(SM_CODE) N_SERIES };

typedef struct {
    int64_t busy, total;
} ticks;

struct sm_utilisation {
    int stat_file; // -1: none
    int memory_file;
    sm_nvml *nvml; // NULL: none
    char *text;    // of /proc/stat
    ticks before;  // of all processors, at the last look

    pthread_t thread;
    bool has_thread;
    pthread_mutex_t lock; // protects the members below
    pthread_cond_t changed;
    bool is_ended;
    int64_t interval_ns;
    double samples[N_PLACES][N_SERIES]; // NaN: unknown
    int n;
    sm_utilisation_stage stage;
    int first[SM_UTILISATION_COUNT]; // first sample of a stage
    int n_processors;
    ticks at_begin[MAX_PROCESSORS]; // at the start of the headline
    ticks at_end[MAX_PROCESSORS];
};

// --- looking ---------------------------------------------------------------------------------------------

// The text of a file of /proc, from its beginning; false if it does not exist.
static bool read_whole(int file, char *text, size_t size_bytes) {
    const ssize_t n = file >= 0 ? pread(file, text, size_bytes - 1, 0) : -1;
    text[n > 0 ? n : 0] = '\0';
    return n > 0;
}

// A line of /proc/stat after its name: user nice system idle iowait irq softirq steal.
static ticks read_ticks(const char *line) {
    long long t[8] = {0};
    (void)sscanf(line, "%lld %lld %lld %lld %lld %lld %lld %lld", &t[0], &t[1], &t[2], &t[3], &t[4], &t[5], &t[6],
                 &t[7]);
    const int64_t busy = t[0] + t[1] + t[2] + t[5] + t[6];
    return (ticks){.busy = busy, .total = busy + t[3] + t[4] + t[7]};
}

// The ticks of each processor, in the order of the file.
static int each_ticks(const sm_utilisation *u, ticks each[MAX_PROCESSORS]) {
    int n = 0;
    for (const char *line = u->text; line != NULL && n < MAX_PROCESSORS; line = strchr(line, '\n')) {
        line += *line == '\n';
        int used = 0;
        if (strncmp(line, "cpu ", 4) != 0 && sscanf(line, "cpu%*d%n", &used) == 0 && used > 0) {
            each[n++] = read_ticks(line + used);
        }
    }
    return n;
}

static double share_of(ticks before, ticks after) {
    const int64_t total = after.total - before.total;
    return total > 0 ? (double)(after.busy - before.busy) / (double)total : NAN;
}

static void look(sm_utilisation *u, double values[N_SERIES]) {
    char text[128];
    long long pages;
    const ticks before = u->before;
    (void)read_whole(u->stat_file, u->text, STAT_BYTES);
    u->before = strncmp(u->text, "cpu ", 4) == 0 ? read_ticks(u->text + 4) : (ticks){0, 0};
    const bool is_told = read_whole(u->memory_file, text, sizeof(text)) && sscanf(text, "%*d %lld", &pages) == 1;
    values[AT_cpu] = share_of(before, u->before);
    values[AT_rss_bytes] = is_told ? (double)pages * (double)os_page_bytes() : NAN;
    values[AT_gpu] = sm_nvml_read(u->nvml, SM_NVML_BUSY_PERCENT) / 100;
    values[AT_gpu_memory_bytes] = sm_nvml_read(u->nvml, SM_NVML_MEMORY_BYTES);
    values[AT_power_w] = sm_nvml_read(u->nvml, SM_NVML_POWER_MW) / 1000;
}

static void *watch(void *ctx) {
    sm_utilisation *u = ctx;
    int64_t next_ns = sm_now_ns();
    pthread_mutex_lock(&u->lock);
    for (;;) {
        next_ns += u->interval_ns;
        while (!u->is_ended && sm_now_ns() < next_ns) {
            (void)os_wait_until(&u->changed, &u->lock, next_ns);
        }
        if (u->is_ended) {
            break;
        }
        if (u->n == N_PLACES) {
            for (int i = 0; i < u->n / 2 * N_SERIES; i++) {
                const double a = u->samples[i / N_SERIES * 2][i % N_SERIES];
                const double b = u->samples[i / N_SERIES * 2 + 1][i % N_SERIES];
                u->samples[i / N_SERIES][i % N_SERIES] = isnan(a) ? b : isnan(b) ? a : (a + b) / 2;
            }
            u->n /= 2;
            for (int stage = 0; stage < SM_UTILISATION_COUNT; stage++) {
                u->first[stage] /= 2;
            }
            u->interval_ns *= 2;
        }
        look(u, u->samples[u->n++]);
        next_ns = next_ns < sm_now_ns() ? sm_now_ns() : next_ns; // missed looks are not made up for
    }
    pthread_mutex_unlock(&u->lock);
    return NULL;
}

// --- begin and end -------------------------------------------------------------------------------------------

static int open_below(const char *root, const char *name) {
    SM_OWN(FILE) *opened = os_open_facts(root, name);
    return opened != NULL ? fcntl(fileno(opened), F_DUPFD_CLOEXEC, 0) : -1;
}

sm_status sm_utilisation_start(const char *root, const char *gpu, const sm_background *background, int64_t interval_ns,
                               sm_utilisation **utilisation) {
    sm_utilisation *u = sm_calloc(1, sizeof(*u));
    *utilisation = u;
    u->stat_file = open_below(root, "/proc/stat");
    u->memory_file = open_below(root, "/proc/self/statm");
    u->interval_ns = interval_ns;
    u->text = sm_malloc(STAT_BYTES);
    pthread_mutex_init(&u->lock, NULL);
    os_init_condition(&u->changed);
    if (gpu[0] != '\0' && sm_nvml_open(gpu, &u->nvml) != SM_OK) {
        u->nvml = NULL; // sensors.h reports why
    }
    look(u, u->samples[0]); // from which the first share counts
    const sm_status status = sm_background_start(background, watch, u, &u->thread);
    u->has_thread = status == SM_OK;
    if (status != SM_OK) {
        sm_utilisation_close(u);
        *utilisation = NULL;
    }
    return status;
}

// Called between stages, while no clock runs.
void sm_utilisation_enter(sm_utilisation *u, sm_utilisation_stage stage) {
    if (u == NULL || stage <= u->stage) {
        return;
    }
    pthread_mutex_lock(&u->lock);
    (void)read_whole(u->stat_file, u->text, STAT_BYTES);
    for (int next = u->stage + 1; next <= (int)stage; next++) {
        u->first[next] = u->n;
        u->n_processors = each_ticks(u, next == SM_UTILISATION_HEADLINE ? u->at_begin : u->at_end);
    }
    u->stage = stage;
    pthread_mutex_unlock(&u->lock);
}

static void end_thread(sm_utilisation *u) {
    if (u->has_thread) {
        pthread_mutex_lock(&u->lock);
        u->is_ended = true;
        pthread_cond_broadcast(&u->changed);
        pthread_mutex_unlock(&u->lock);
        pthread_join(u->thread, NULL);
        u->has_thread = false;
    }
}

// --- the series ------------------------------------------------------------------------------------------------

// Three digits of a share, whole bytes and watts, so that a row stays short.
static double rounded(double value, int which) {
    return which == AT_cpu || which == AT_gpu ? round(1e3 * value) / 1e3
           : which == AT_power_w              ? round(10 * value) / 10
                                              : round(value);
}

// Nothing, if nothing was recorded.
static void add_values(const sm_utilisation *u, int which, const char *name, json_t *series) {
    SM_OWN(json_t) *values = json_array();
    bool has_any = false;
    for (int i = 0; i < u->n; i++) {
        const double value = u->samples[i][which];
        const bool is_whole = which == AT_rss_bytes || which == AT_gpu_memory_bytes;
        has_any |= isfinite(value);
        json_array_append_new(values, is_whole && isfinite(value) ? json_integer((json_int_t)value)
                                                                  : sm_json_real(rounded(value, which)));
    }
    if (has_any) {
        sm_json_set_new(series, name, json_incref(values));
    }
}

static json_t *make_series(const sm_utilisation *u) {
    static const char *const counts[] = {SM_UTILISATION_LIST(SM_WORD)};
    static const char *const names[] = {SERIES_LIST(SM_WORD)};
    json_t *series = json_object();
    sm_json_set_new(series, "interval_ms", sm_json_real((double)u->interval_ns / 1e6));
    for (int stage = 0; stage < SM_UTILISATION_COUNT; stage++) {
        const int end = stage + 1 < SM_UTILISATION_COUNT ? u->first[stage + 1] : u->n;
        sm_json_set_new(series, counts[stage], json_integer(end - u->first[stage]));
    }
    for (int which = 0; which < N_SERIES; which++) {
        add_values(u, which, names[which], series);
    }
    if (u->first[SM_UTILISATION_AFTER] > u->first[SM_UTILISATION_HEADLINE]) {
        json_t *processors = json_array();
        for (int i = 0; i < u->n_processors; i++) {
            const double share = share_of(u->at_begin[i], u->at_end[i]);
            json_array_append_new(processors, sm_json_real(rounded(share, AT_cpu)));
        }
        sm_json_set_new(series, "processors", processors);
    }
    return series;
}

void sm_utilisation_stop(sm_utilisation *u, json_t **series) {
    sm_utilisation_enter(u, SM_UTILISATION_AFTER);
    end_thread(u);
    *series = make_series(u);
}

void sm_utilisation_close(sm_utilisation *u) {
    if (u == NULL) {
        return;
    }
    end_thread(u);
    sm_nvml_close(u->nvml);
    sm_close_at(&u->stat_file);
    sm_close_at(&u->memory_file);
    pthread_cond_destroy(&u->changed);
    pthread_mutex_destroy(&u->lock);
    free(u->text);
    free(u);
}
