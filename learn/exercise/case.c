// case.c: builds a case, runs it on the reference, and places each operand between guard pages.
#include "learn/exercise/judge.h"

#include "os/memory.h"
#include "src/verify/verify.h"

enum { ALIGN_BYTES = 64, CANARY = 0xA5 };
static const double peak_seconds = 0.1;

// --- one operand -----------------------------------------------------------------------------------

static size_t round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }

// Data end at the end of the last page, as far as alignment allows.
static sm_status map_operand(sm_case_operand *o) {
    const size_t padded_bytes = round_up(o->size_bytes, ALIGN_BYTES);
    o->page_bytes = os_page_bytes();
    o->map_bytes = round_up(padded_bytes, o->page_bytes) + 2 * o->page_bytes;
    o->map = os_map_shared(o->map_bytes);
    o->before = malloc(o->size_bytes);
    const size_t inner_bytes = o->map_bytes - 2 * o->page_bytes;
    SM_FAIL_IF(o->map == NULL || o->before == NULL || !os_protect(o->map, o->page_bytes, OS_MAY_NOTHING) ||
                   !os_protect(o->map + o->page_bytes + inner_bytes, o->page_bytes, OS_MAY_NOTHING),
               SM_ERR_OOM, "exercise: no memory for %zu bytes of %s", o->size_bytes, o->info->name);
    o->data = o->map + o->map_bytes - o->page_bytes - padded_bytes;
    memset(o->map + o->page_bytes, CANARY, inner_bytes);
    return SM_OK;
}

bool sm_case_is_intact(const sm_case_operand *o) {
    const char *end = o->map + o->map_bytes - o->page_bytes;
    for (const char *p = o->map + o->page_bytes; p < end; p++) {
        const bool is_data = p >= o->data && p < o->data + o->size_bytes;
        if (!is_data && *(const unsigned char *)p != CANARY) {
            return false;
        }
    }
    return true;
}

bool sm_case_is_overwritten(const sm_exercise_case *c, const sm_case_operand *input) {
    bool is_overwritten = false;
    for (int k = SM_MAX_IN; k < SM_CASE_OPERANDS; k++) {
        is_overwritten |= c->operands[k].is_shared && c->operands[k].map == input->map;
    }
    return is_overwritten;
}

// --- a case ----------------------------------------------------------------------------------------

static void close_case(sm_exercise_case *c) {
    for (int i = 0; i < SM_CASE_OPERANDS; i++) {
        sm_case_operand *o = &c->operands[i];
        if (o->map != NULL && !o->is_shared) {
            os_unmap(o->map, o->map_bytes);
        }
        free(o->before);
        free(o->expected);
        free(o->got);
    }
    sm_plan_free(c->plan);
}

// Allocates the operands' memory. An output in the place of an input shares its memory.
static sm_status lay_out(sm_exercise_case *c) {
    const sm_op_info *info = sm_op_get_info(c->kind);
    const bool is_inplace = info->inplace_in != SM_NO_OPERAND && strstr(c->text, "inplace=1") != NULL;
    for (int i = 0; i < SM_CASE_OPERANDS; i++) {
        const bool is_input = i < SM_MAX_IN;
        const int k = is_input ? i : i - SM_MAX_IN;
        const int tensor = is_input ? c->op->in[k] : c->op->out[k];
        if (tensor == SM_NO_TENSOR) {
            continue;
        }
        const sm_tensor *t = &c->plan->tensors[tensor];
        sm_case_operand *o = &c->operands[i];
        *o = (sm_case_operand){.info = is_input ? &info->in[k] : &info->out[k],
                               .tensor = t,
                               .is_output = !is_input,
                               .out = is_input ? -1 : k,
                               .n_elems = sm_tensor_elems(t),
                               .size_bytes = sm_tensor_bytes(t)};
        SM_TRY(map_operand(o));
        if (!is_input && k == sm_op_inplace_out(info) && is_inplace) {
            os_unmap(o->map, o->map_bytes);
            const sm_case_operand *with = &c->operands[info->inplace_in];
            o->map = with->map;
            o->map_bytes = with->map_bytes;
            o->data = with->data;
            o->is_shared = true;
        }
    }
    return SM_OK;
}

// Reads the operands before the op under test: after the forward op, if there is one.
static sm_status read_before(sm_exercise_case *c, const sm_backend *backend, sm_executable *executable) {
    for (int i = 0; i < SM_CASE_OPERANDS; i++) {
        sm_case_operand *o = &c->operands[i];
        if (o->info == NULL) {
            continue;
        }
        if (o->is_shared) { // allocated with the input
            memcpy(o->before, o->data, o->size_bytes);
        } else if (o->is_output && o->info->mode == SM_WRITES) {
            for (int64_t k = 0; k < o->n_elems; k++) {
                ((float *)o->before)[k] = SM_EXERCISE_POISON;
            }
        } else {
            SM_TRY(backend->download(executable, sm_case_tensor(c, o), 0, o->n_elems, o->before));
        }
        if (!o->is_shared) {
            memcpy(o->data, o->before, o->size_bytes);
        }
    }
    return SM_OK;
}

// Errors of f32 sums of products have a third of this root at most, in any order; those of operands that were rounded
// to 17 bits are above it for sums of up to a few thousand.
static double mean_tolerance(int64_t sum_length, int64_t n) {
    const double root = 0x1p-24 * (4 + sqrt((double)sum_length)) * (1 + 4 / sqrt((double)n));
    return root * root;
}

static sm_status read_expected(sm_exercise_case *c, const sm_backend *backend, sm_executable *executable) {
    const int64_t sum_length = sm_op_text_sum_length(c->kind, c->text);
    for (int i = 0; i < SM_CASE_OPERANDS; i++) {
        sm_case_operand *o = &c->operands[i];
        if (o->info != NULL && o->is_output) {
            o->expected = o->expected != NULL ? o->expected : sm_malloc(o->size_bytes);
            o->got = o->got != NULL ? o->got : sm_malloc(o->size_bytes);
            memcpy(o->got, o->data, o->size_bytes);
            SM_TRY(backend->download(executable, sm_case_tensor(c, o), 0, o->n_elems, o->expected));
            o->tolerance = sm_verify_tolerance(c->plan, c->op, o->out, sum_length);
            o->mean_tolerance = sm_op_is_matmul(c->kind) ? mean_tolerance(sum_length, o->n_elems) : 0;
        }
    }
    return SM_OK;
}

// Runs the ops before the one under test; or all of them, and reads the results.
static sm_status run_reference(sm_exercise_case *c, sm_device *reference, bool all) {
    const sm_backend *backend = reference->backend;
    SM_OWN(sm_executable) *executable = NULL;
    SM_TRY(backend->prepare(reference, c->plan, &executable));
    SM_TRY(sm_op_text_upload(c->text, c->seed, c->plan, executable));
    SM_TRY(backend->execute(executable, (sm_range){0, all ? c->plan->n_ops : c->plan->n_ops - 1}, NULL));
    return all ? read_expected(c, backend, executable) : read_before(c, backend, executable);
}

sm_status sm_case_renew(sm_exercise_case *c, sm_device *reference, uint64_t seed) {
    c->seed = seed;
    return run_reference(c, reference, false);
}

sm_status sm_case_expect(sm_exercise_case *c, sm_device *reference) { return run_reference(c, reference, true); }

static sm_status open_case(sm_exercise_case *c, sm_device *reference) {
    SM_TRY(sm_op_case_plan(c->kind, c->index, (sm_precision){.dtype = SM_F32}, &c->plan));
    c->op = &c->plan->ops[c->plan->n_ops - 1];
    SM_TRY(sm_plan_assign_memory(c->plan, 0));
    SM_TRY(lay_out(c));
    SM_TRY(run_reference(c, reference, false));
    for (int i = 0; i < SM_CASE_OPERANDS; i++) {
        c->addresses[i] = c->operands[i].data;
    }
    sm_own_args_fill(c->plan, c->op, c->addresses, c->addresses + SM_MAX_IN,
                     &c->args); // operands hold their data, also dropout's counter
    return SM_OK;
}

// --- all cases -------------------------------------------------------------------------------------

sm_status sm_exercise_cases_open(sm_op_kind kind, uint64_t seed, sm_exercise_cases *cases) {
    double most = -1;
    *cases = (sm_exercise_cases){.list = sm_calloc((size_t)sm_op_case_count(kind), sizeof *cases->list)};
    SM_TRY(sm_backend_find("reference")->open(0, &(sm_open_options){.n_threads = 0}, &cases->reference));
    for (int i = 0; i < sm_op_case_count(kind); i++) {
        sm_exercise_case *c = &cases->list[cases->n];
        *c = (sm_exercise_case){.kind = kind, .index = i, .seed = seed + (uint64_t)i};
        sm_op_case_text(kind, i, c->text);
        if (!sm_op_case_is_naive(kind, i) || sm_op_case_is_fp8(kind, c->text)) {
            continue;
        }
        cases->n++; // so that a failed one is closed, too
        SM_TRY(open_case(c, cases->reference));
        const double work = sm_op_flops(c->plan, c->op) + sm_op_bytes(c->plan, c->op);
        cases->timed = work > most ? cases->n - 1 : cases->timed;
        most = fmax(work, most);
    }
    return SM_OK;
}

sm_status sm_exercise_cases_expect(sm_exercise_cases *cases) {
    for (int i = 0; i < cases->n; i++) {
        SM_TRY(sm_case_expect(&cases->list[i], cases->reference));
    }
    return SM_OK;
}

void sm_exercise_cases_close(sm_exercise_cases *cases) {
    for (int i = 0; i < cases->n; i++) {
        close_case(&cases->list[i]);
    }
    free(cases->list);
    sm_device_close(cases->reference);
    *cases = (sm_exercise_cases){.list = NULL};
}

// --- its ceiling -----------------------------------------------------------------------------------

sm_status sm_case_ceiling(const sm_exercise_case *c, sm_device *device, double seen_ns, sm_op_ceiling *ceiling) {
    enum { MOST_TRIES = 8 };
    *ceiling = (sm_op_ceiling){.ns = INFINITY};
    for (int i = 0; i < MOST_TRIES && ceiling->ns > seen_ns; i++) {
        sm_op_ceiling another;
        SM_TRY(sm_op_ceiling_measure(device, c->plan, c->op, peak_seconds, true, &another));
        *ceiling = another.ns < ceiling->ns ? another : *ceiling;
    }
    return SM_OK;
}
