// found.c: which units compute rightly. They are tried in another process, as compilers and drivers that meet an
// instruction for the first time may end it; what was found is kept with the built programs.

#include "backends/opencl/units/units.h"

#include "backends/host/helper.h"
#include "backends/host/memory.h"

typedef struct {
    int32_t n;
    units_tried tried[UNITS_MOST_TRIED];
} findings;

enum { MOST_DEVICES = 64 };

static struct {
    cl_device_id id;
    findings found; // n is 0: it was not tried
} known[MOST_DEVICES];

static void make_key(const opencl_facts *f, char *key, size_t size_bytes) {
    static const char *const stems[] = {"philox", "prelude", "units", "heads", "matmul_units", "attention_units", NULL};
    opencl_probe_key(f, SM_TEXT_IN(16, "units %d", UNITS_PROBE_VERSION), stems, key, size_bytes);
}

static findings *find(const opencl_facts *facts) {
    for (int i = 0; i < MOST_DEVICES; i++) {
        if (known[i].id == NULL) {
            known[i].id = facts->id;
            char key[1024];
            unsigned char *kept = NULL;
            size_t n_bytes = 0;
            make_key(facts, key, sizeof key);
            if (opencl_cache_load(key, &kept, &n_bytes) == SM_OK && kept != NULL && n_bytes == sizeof known[i].found) {
                memcpy(&known[i].found, kept, n_bytes);
            }
            free(kept);
        }
        if (known[i].id == facts->id) {
            return &known[i].found;
        }
    }
    return NULL;
}

// All that was tried of a format must be right, and something was.
bool units_are_right(const opencl_facts *facts, units_format format, int kind) {
    const opencl_unit *unit = units_of(facts);
    const findings *found = unit != NULL && unit->formats[format] ? find(facts) : NULL;
    int n_right = 0;
    for (int i = 0; found != NULL && i < found->n; i++) {
        const units_tried *t = &found->tried[i];
        if (t->format == (int32_t)format && t->kind == kind) {
            if (!t->is_right) {
                return false;
            }
            n_right++;
        }
    }
    return n_right > 0;
}

const char *units_trouble(const opencl_facts *facts) {
    static char text[SM_TEXT_SIZE];
    const opencl_unit *unit = units_of(facts);
    const findings *found = unit != NULL ? find(facts) : NULL;
    if (unit == NULL) {
        return "the device tells of no matrix unit that is known";
    }
    if (found == NULL || found->n == 0) {
        return "not tried yet: stepmark devices --probe tries it";
    }
    for (int i = 0; i < found->n; i++) {
        if (!found->tried[i].is_right && !units_multiplies(facts, UNITS_BF16)) {
            snprintf(text, sizeof text, "%.50s: %.70s", found->tried[i].what, found->tried[i].trouble);
            return text;
        }
    }
    return "";
}

// --- another process ------------------------------------------------------------------------------------------

static void say_tried(const units_tried *t, void (*say)(void *ctx, const char *line), void *ctx) {
    if (say != NULL) {
        say(ctx, SM_TEXT_IN(2 * UNITS_TRIED_TEXT + 16, "%s: %s", t->what, t->is_right ? "right" : t->trouble));
    }
}

static void add(findings *found, const units_tried *t) {
    if (found->n < UNITS_MOST_TRIED) {
        found->tried[found->n++] = *t;
    }
}

// Each thing is told before it is tried: the last of a process that ended is its trouble.
static void listen(host_pipe *from, int64_t deadline_ns, findings *found, void (*say)(void *, const char *),
                   void *ctx) {
    units_tried t;
    units_tried begun = {.what = "the device"};
    bool is_begun = true;
    while (host_await_record(from->take, deadline_ns) && host_take(from->take, &t, sizeof t)) {
        is_begun = !t.is_right && t.trouble[0] == '\0';
        begun = t;
        if (!is_begun) {
            add(found, &t);
            say_tried(&t, say, ctx);
        }
    }
    if (is_begun) {
        snprintf(begun.trouble, sizeof begun.trouble, "the driver or its compiler ended the process, or took too long");
        add(found, &begun);
        say_tried(&begun, say, ctx);
    }
}

void units_try(const opencl_facts *facts, int index, const char *helper, bool again,
               void (*say)(void *ctx, const char *line), void *ctx) {
    enum { LIMIT_SECONDS = 300 };
    findings *found = units_of(facts) != NULL && helper != NULL ? find(facts) : NULL;
    if (found == NULL || (found->n > 0 && !again)) {
        return;
    }
    char word[16];
    char key[1024];
    snprintf(word, sizeof word, "%d", index);
    char *const argv[] = {(char *)helper, (char *)"--helper", (char *)"opencl", word, (char *)"units", NULL};
    host_pipe work = {-1, -1};
    host_pipe told = {-1, -1};
    const int64_t deadline_ns = host_now_ns() + (int64_t)LIMIT_SECONDS * 1000000000;
    *found = (findings){0};
    if (host_open_pipe(&work) && host_open_pipe(&told)) {
        os_child started;
        const bool is_started = host_start_helper(argv, work.take, told.put, &started);
        sm_close_at(&told.put);
        if (is_started) {
            listen(&told, deadline_ns, found, say, ctx);
            sm_close_at(&told.take);
            (void)host_await_helper(&started, deadline_ns);
        }
    }
    sm_close_at(&work.take);
    sm_close_at(&work.put);
    sm_close_at(&told.take);
    sm_close_at(&told.put);
    make_key(facts, key, sizeof key);
    opencl_cache_store(key, (const unsigned char *)found, sizeof *found);
}
