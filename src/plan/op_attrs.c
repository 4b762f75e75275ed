// op_attrs.c: facts and values of the attributes listed in op.h, by index.
#include "op.h"

// The sm_attr_type of a field, from its C type.
#define TYPE_OF(name)                   \
    _Generic(((sm_attrs *)0)->name, int \
             : SM_ATTR_INTEGER, int64_t \
             : SM_ATTR_INTEGER, sm_when \
             : SM_ATTR_INTEGER, double  \
             : SM_ATTR_REAL, bool       \
             : SM_ATTR_SWITCH, uint64_t \
             : SM_ATTR_KEY)

static const sm_attr_info infos[SM_ATTR_COUNT] = {
#define FIELD(type, name, letter, text)    [SM_ATTR_##name] = {#name, letter, text, TYPE_OF(name)},
#define EPILOGUE(code, name, letter, text) [SM_ATTR_##name] = {#name, letter, text, SM_ATTR_EPILOGUE},
    SM_ATTR_LIST(FIELD, EPILOGUE)
#undef FIELD
#undef EPILOGUE
};

const sm_attr_info *sm_attr_get_info(sm_attr attr) { return &infos[attr]; }

// clang-format off
double sm_attr_get(const sm_attrs *attrs, sm_attr attr) {
    switch (attr) {
#define FIELD(type, name, letter, text)    case SM_ATTR_##name: return (double)attrs->name;
#define EPILOGUE(code, name, letter, text) case SM_ATTR_##name: return (attrs->epilogue & (code)) != 0;
        SM_ATTR_LIST(FIELD, EPILOGUE)
#undef FIELD
#undef EPILOGUE
    case SM_ATTR_COUNT: break;
    }
    return 0;
}

void sm_attr_set(sm_attrs *attrs, sm_attr attr, double value) {
    switch (attr) {
#define FIELD(type, name, letter, text)    case SM_ATTR_##name: attrs->name = (type)value; break;
#define EPILOGUE(code, name, letter, text) \
    case SM_ATTR_##name: attrs->epilogue = value != 0 ? attrs->epilogue | (code) : attrs->epilogue & ~(code); break;
        SM_ATTR_LIST(FIELD, EPILOGUE)
#undef FIELD
#undef EPILOGUE
    case SM_ATTR_COUNT: break;
    }
}
// clang-format on
