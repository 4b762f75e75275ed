// gather_rows.c: sums the token table's gradient early, then adds the embedding's rows from all processes to the sum.
//
//   dwte += the head's part                     dwte += the head's part
//   ... the rest of the backward                begin: dwte = sum over the processes
//   dwte += rows of dx by token        =>       ... the rest of the backward
//   begin: dwte = sum over the processes        gather: tokens and dx of all processes
//   ...                                         finish: dwte
//                                               dwte += rows of all dx by all tokens
//
// The table is the largest parameter, and its gradient is complete only when the backward ends, with no computation
// left to overlap with the sum. A batch has few of its rows. Earlier micro-batches add only their own rows.
#include "shard.h"
#include "src/rewrites/passes.h"

// The op that adds rows to the table; -1: none, or several.
static int find_embedding(const sm_plan *plan) {
    int found = -1;
    for (int i = 0; i < plan->n_ops; i++) {
        if (plan->ops[i].kind == SM_OP_EMBEDDING_BACKWARD) {
            if (found >= 0) {
                return -1;
            }
            found = i;
        }
    }
    return found;
}

// Whether the tensor's slice of a gathered one begins at the process's rank times its size.
static bool is_even(const sm_plan *plan, int tensor) {
    const int64_t n = sm_tensor_elems(&plan->tensors[tensor]);
    const sm_slice own = sm_slice_of(n * plan->processes.n, SM_SLICE_LINE, plan->processes.rank, plan->processes.n);
    const sm_slice first = sm_slice_of(n * plan->processes.n, SM_SLICE_LINE, 0, plan->processes.n);
    return own.first == n * plan->processes.rank && own.end - own.first == n && first.end == n;
}

// Whether the rows are fewer bytes than the table, and can be written where they are gathered.
static bool is_worth_it(const sm_plan *plan, const sm_op *op) {
    const int dx = op->in[SM_IN(embedding_backward, dx)];
    const sm_tensor *rows = &plan->tensors[dx];
    const sm_tensor *table = &plan->tensors[op->out[SM_OUT(embedding_backward, dwte)]];
    if (op->in[SM_IN(embedding_backward, starts)] != SM_NO_TENSOR || rows->view_of != SM_NO_TENSOR ||
        rows->role != SM_ROLE_ACTIVATION || !is_even(plan, dx) || !is_even(plan, plan->tokens)) {
        return false;
    }
    for (int i = 0; i < plan->n_tensors; i++) {
        if (plan->tensors[i].view_of == dx) {
            return false;
        }
    }
    return (size_t)plan->processes.n * sm_tensor_bytes(rows) <= sm_tensor_bytes(table);
}

// Room for the rows of all processes, in shared memory, as gradients are.
static int add_gathered(sm_plan *plan, int of, const char *name) {
    sm_tensor one = plan->tensors[of];
    one.dims[0] *= plan->processes.n;
    return sm_plan_add_tensor(plan, SM_ROLE_GRADIENT, one.dtype, one.n_dims, one.dims, "%s", name);
}

// The ops that replace op `at`: if more micro-batches follow, adding its own rows; else gathering and adding all.
static sm_status replace(sm_plan *plan, int at, int rows, int tokens) {
    sm_op own = plan->ops[at];
    sm_op all = own;
    sm_op gather = sm_op_make(SM_OP_GATHER_ROWS, own.range, -1);
    own.attr.when = SM_WHEN_MORE;
    all.attr.when = SM_WHEN_LAST;
    all.in[SM_IN(embedding_backward, dx)] = rows;
    all.in[SM_IN(embedding_backward, token)] = tokens;
    gather.phase = SM_PHASE_COMMUNICATION;
    gather.attr.n_processes = plan->processes.n;
    SM_OUTPUTS(gather, gather_rows, rows, tokens);
    sm_op_list list = {.plan = plan};
    for (int i = 0; i < plan->n_ops; i++) {
        if (i != at) {
            sm_ops_append(&list, plan->ops[i]);
            continue;
        }
        if (!plan->one_micro_batch) {
            sm_ops_append(&list, own);
        }
        sm_ops_append(&list, gather);
        sm_ops_append(&list, all);
    }
    return sm_ops_take(&list);
}

sm_status sm_rewrite_gather_rows(sm_plan *plan) {
    const int at = find_embedding(plan);
    if (at < 0 || !is_worth_it(plan, &plan->ops[at])) {
        return SM_OK;
    }
    const int dx = plan->ops[at].in[SM_IN(embedding_backward, dx)];
    const int rows = add_gathered(plan, dx, "gathered.d.encoded");
    const int tokens = add_gathered(plan, plan->tokens, "gathered.tokens");
    SM_TRY(plan->status);
    sm_tensor *own = &plan->tensors[dx];
    own->role = SM_ROLE_GRADIENT;
    own->view_of = rows;
    own->view_offset_elems = plan->processes.rank * sm_tensor_elems(own);
    plan->gathered_tokens = tokens;
    return replace(plan, at, rows, tokens);
}
