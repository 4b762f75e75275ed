// models.c: the table of architectures.
#include "src/models/model.h"

static const sm_model *const models[] = {
#define X(name) &sm_model_##name,
    SM_MODEL_LIST(X)
#undef X
};

int sm_model_count(void) { return (int)(sizeof models / sizeof models[0]); }

const sm_model *sm_model_at(int index) { return models[index]; }
