// loss_head.c: the loss head over chunks of rows.
//
//   logits = lnf wte^T                          for each chunk of rows c:
//   losses, lse = crossentropy_forward(logits)    logits_c = lnf_c wte^T
//   ...                                       =>  dlogits_c, losses_c = crossentropy_with_gradient(logits_c)   (in place)
//   dlogits = crossentropy_backward(...)          dwte += dlogits_c^T lnf_c
//   dwte += dlogits^T lnf                         dlnf_c = dlogits_c wte
//   dlnf = dlogits wte
//
// Equal because rows of the head do not depend on one another, and dwte is a sum over rows. The ops work on views of
// their operands. Those of the backward keep their phase in reports, but run in the forward range, while their chunk of
// logits exists. Memory falls from two (N,Vp) tensors to one chunk. Without backward, a chunk has logits and losses alone.
#include "src/rewrites/passes.h"

// Rows of logits in a chunk. Every chunk reads and writes dwte once more, and the matmul of dlnf has only the chunk's
// rows: so a quarter of all rows, if that is enough for an efficient matmul and the logits stay below half a gibibyte.
// Matmuls of narrow data are faster than memory, so they take twice as many rows, which need no more bytes, or all, if
// these are few. Chunks are whole tiles, except the last.
enum { LEAST_ROWS = 512, TILE_ROWS = 128, CHUNKS = 4, FEW_LOGITS_BYTES = 1 << 28, MOST_LOGITS_BYTES = 1 << 29 };

static int64_t round_up(int64_t n, int64_t step) { return (n + step - 1) / step * step; }

static int64_t choose_rows(int64_t n_rows, const sm_tensor *logits) {
    const int64_t elem_bytes = (int64_t)sm_dtype_size(logits->dtype);
    const int64_t row_bytes = sm_tensor_cols(logits) * elem_bytes;
    const int64_t least = LEAST_ROWS * (int64_t)sizeof(float) / elem_bytes;
    const int64_t most = MOST_LOGITS_BYTES / row_bytes / TILE_ROWS * TILE_ROWS;
    const bool are_few = sm_dtype_is_narrow(logits->dtype) && n_rows * row_bytes <= FEW_LOGITS_BYTES;
    const int64_t n_wanted = are_few ? 1 : CHUNKS * elem_bytes / (int64_t)sizeof(float);
    int64_t rows = round_up((n_rows + n_wanted - 1) / n_wanted, TILE_ROWS);
    rows = rows < most ? rows : most;
    rows = rows > least ? rows : least;
    const int64_t n_chunks = (n_rows + rows - 1) / rows;
    rows = round_up((n_rows + n_chunks - 1) / n_chunks, TILE_ROWS);
    return rows < n_rows ? rows : n_rows;
}

// The head's ops; the last three are missing in a plan without backward.
enum { LOGITS, LOSS, DLOGITS, DWTE, DLNF, N_HEAD_OPS };

// The head's op that this op is; N_HEAD_OPS: none.
static int place_of(const sm_op *op) {
    const bool is_head = op->attr.vocab > 0;
    switch (op->kind) {
    case SM_OP_CROSSENTROPY_FORWARD: return LOSS;
    case SM_OP_CROSSENTROPY_BACKWARD: return DLOGITS;
    case SM_OP_MATMUL_FORWARD: return is_head ? LOGITS : N_HEAD_OPS;
    case SM_OP_MATMUL_BACKWARD_WEIGHT: return is_head ? DWTE : N_HEAD_OPS;
    case SM_OP_MATMUL_BACKWARD_INPUT: return is_head ? DLNF : N_HEAD_OPS;
    default: return N_HEAD_OPS;
    }
}

// Rows [first, first + n) of a tensor seen as rows by columns, or elements of a vector.
static int row_view(sm_plan *plan, int tensor, bool is_vector, int64_t first, int64_t n) {
    const sm_tensor t = plan->tensors[tensor];
    int64_t cols = is_vector ? 1 : sm_tensor_cols(&t);
    const int64_t dims[2] = {n, cols};
    return sm_plan_add_view(plan, tensor, first * cols, is_vector ? 1 : 2, dims, "%.40s[%lld:%lld]", t.name,
                            (long long)first, (long long)(first + n));
}

// The views that the ops of a chunk share.
typedef struct {
    int logits, targets, losses, lse, lnf, dlnf;
} chunk_views;

static chunk_views make_views(sm_plan *plan, const sm_op head_ops[N_HEAD_OPS], bool backward, int logits, int64_t first,
                              int64_t n) {
    return (chunk_views){
        .logits = row_view(plan, logits, false, 0, n),
        .targets = row_view(plan, head_ops[LOSS].in[SM_IN(crossentropy_forward, target)], true, first, n),
        .losses = row_view(plan, head_ops[LOSS].out[SM_OUT(crossentropy_forward, losses)], true, first, n),
        .lse = backward ? 0 : row_view(plan, head_ops[LOSS].out[SM_OUT(crossentropy_forward, lse)], true, first, n),
        .lnf = row_view(plan, head_ops[LOGITS].in[SM_IN(matmul_forward, x)], false, first, n),
        .dlnf = backward ? row_view(plan, head_ops[DLNF].out[SM_OUT(matmul_backward_input, dx)], false, first, n) : 0,
    };
}

// The ops of a chunk, from the head's; returns how many.
static int bind_chunk(const sm_op head_ops[N_HEAD_OPS], bool backward, const chunk_views *v, sm_op ops[4]) {
    ops[0] = head_ops[LOGITS];
    ops[0].in[SM_IN(matmul_forward, x)] = v->lnf;
    ops[0].out[SM_OUT(matmul_forward, y)] = v->logits;
    if (!backward) {
        ops[1] = head_ops[LOSS];
        SM_INPUTS(ops[1], crossentropy_forward, v->logits, v->targets);
        SM_OUTPUTS(ops[1], crossentropy_forward, v->losses, v->lse);
        return 2;
    }
    ops[1] = sm_op_make(SM_OP_CROSSENTROPY_WITH_GRADIENT, head_ops[LOSS].phase, head_ops[LOSS].layer);
    ops[1].attr = head_ops[LOSS].attr;
    SM_INPUTS(ops[1], crossentropy_with_gradient, v->logits, v->targets,
              head_ops[DLOGITS].in[SM_IN(crossentropy_backward, scale)]);
    SM_OUTPUTS(ops[1], crossentropy_with_gradient, v->logits, v->losses);
    ops[2] = head_ops[DWTE];
    SM_INPUTS(ops[2], matmul_backward_weight, v->lnf, v->logits, SM_NO_TENSOR, SM_NO_TENSOR);
    ops[3] = head_ops[DLNF];
    ops[3].in[SM_IN(matmul_backward_input, dy)] = v->logits;
    ops[3].out[SM_OUT(matmul_backward_input, dx)] = v->dlnf;
    return 4;
}

// Appends the ops of every chunk.
static void emit_chunks(sm_op_list *list, const sm_op head_ops[N_HEAD_OPS], bool backward, int64_t n_rows) {
    sm_plan *plan = list->plan;
    const sm_tensor whole = plan->tensors[head_ops[LOGITS].out[SM_OUT(matmul_forward, y)]];
    const int64_t chunk_rows = choose_rows(n_rows, &whole);
    const int64_t dims[2] = {chunk_rows, sm_tensor_cols(&whole)};
    int logits = sm_plan_add_tensor(plan, SM_ROLE_SCRATCH, whole.dtype, 2, dims, "logits.chunk");
    for (int64_t first = 0; first < n_rows && plan->status == SM_OK; first += chunk_rows) {
        int64_t n = n_rows - first < chunk_rows ? n_rows - first : chunk_rows;
        const chunk_views views = make_views(plan, head_ops, backward, logits, first, n);
        sm_op ops[4];
        const int n_ops = bind_chunk(head_ops, backward, &views, ops);
        for (int i = 0; i < n_ops; i++) {
            ops[i].range = SM_PHASE_FORWARD;
            sm_ops_append(list, ops[i]);
        }
    }
}

sm_status sm_rewrite_loss_head(sm_plan *plan) {
    int at[N_HEAD_OPS] = {-1, -1, -1, -1, -1};
    sm_op head_ops[N_HEAD_OPS];
    for (int i = 0; i < plan->n_ops; i++) {
        const int place = place_of(&plan->ops[i]);
        if (place < N_HEAD_OPS) {
            at[place] = i;
            head_ops[place] = plan->ops[i];
        }
    }
    if (at[LOGITS] < 0 || at[LOSS] != at[LOGITS] + 1) {
        return SM_OK;
    }
    const bool backward = at[DLOGITS] >= 0 && at[DWTE] >= 0 && at[DLNF] >= 0;
    const int64_t n_rows = sm_tensor_rows(&plan->tensors[head_ops[LOGITS].in[SM_IN(matmul_forward, x)]]);
    sm_op_list list = {.plan = plan};
    for (int i = 0; i < plan->n_ops; i++) {
        const int place = place_of(&plan->ops[i]);
        if (i == at[LOGITS]) {
            emit_chunks(&list, head_ops, backward, n_rows);
        }
        if (place == N_HEAD_OPS || at[place] != i) {
            sm_ops_append(&list, plan->ops[i]);
        }
    }
    return sm_ops_take(&list);
}
