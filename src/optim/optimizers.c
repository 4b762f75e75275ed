// optimizers.c: the table of optimizers.
#include <string.h>

#include "src/optim/optimizer.h"

static const sm_optimizer *const optimizers[] = {
#define X(name) &sm_optimizer_##name,
    SM_OPTIMIZER_LIST(X)
#undef X
};

int sm_optimizer_count(void) { return (int)(sizeof optimizers / sizeof optimizers[0]); }

const sm_optimizer *sm_optimizer_at(int index) { return optimizers[index]; }

const sm_optimizer *sm_optimizer_find(const char *name) {
    for (int i = 0; i < sm_optimizer_count(); i++) {
        if (strcmp(optimizers[i]->name, name) == 0) {
            return optimizers[i];
        }
    }
    return NULL;
}
