// fields.h: the one list of the fields of a model's config. A row here makes the member of sm_model_config and its
// range; the flag (cli/flags/flags.c) and its refusal next to --weights; the columns of result rows, of estimate and of
// walk; the model in run.json, in walk's command and in a report's names; and the comparison of a built model with the
// config.json of weights. The column is part of a row's work: rows that differ in it are never compared as one work
// (bench/rows/identity.h).
#pragma once

#include <stdbool.h>
#include <stdint.h>

// Types of fields, and what a member of that type is.
#define SM_FIELD_SIZE     int64_t // from 1
#define SM_FIELD_OPTIONAL int64_t // from 1; 0: follows from the others. Only for models that name it (sm_model.fields)
#define SM_FIELD_WORD     int     // an index into a list of words, likewise; 0: the first
#define SM_FIELD_SWITCH   bool    // likewise
#define SM_FIELD_REAL     double  // a constant of the arithmetic: it changes values, not work, and is no column

// FLAG(type, member, column, view, heading, meaning, most, flag, argument, help): a SIZE, an OPTIONAL or a WORD
// KEPT(type, member, column, view, heading, meaning, most): config.json alone sets it
//
// `view` says how tables show it where rows agree: SHOWN once, QUIET not at all, as the model's name tells it. A WORD's
// words are MEMBER_words in model.c, and in cli/flags/flags.c.
#define SM_MODEL_FIELDS(FLAG, KEPT)                                                                                \
    FLAG(SIZE, vocab, vocab, SHOWN, "vocabulary", "V: vocabulary, padding excluded", INT32_MAX - 64, "vocab", "V", \
         "number of tokens in the vocabulary, instead of the size's own")                                          \
    FLAG(SIZE, context, n_ctx, QUIET, "context", "longest sequence that the model accepts (--context)", 1 << 24,   \
         "context", "N", "positions of the model: the longest sequence that it accepts")                           \
    FLAG(SIZE, n_layer, n_layer, QUIET, "layers", "L: blocks", 10000, "n-layer", "L", "transformer blocks")        \
    FLAG(SIZE, n_head, n_head, QUIET, "heads", "NH: attention heads", 65536, "n-head", "NH",                       \
         "attention heads; must divide d-model")                                                                   \
    FLAG(OPTIONAL, n_kv_head, n_kv_head, QUIET, "heads of keys",                                                   \
         "NKV: heads of keys and values, each shared by NH / NKV heads of queries", 65536, "n-kv-head", "NKV",     \
         "heads of keys and values, which several query heads share; must divide n-head")                          \
    FLAG(SIZE, d_model, d_model, QUIET, "width", "C: width of the residual stream", 1 << 20, "d-model", "C",       \
         "width of the residual stream")                                                                           \
    KEPT(OPTIONAL, head_dim, head_dim, QUIET, "channels of a head", "HS: channels of a head", 65536)               \
    FLAG(SIZE, d_ff, d_ff, QUIET, "MLP width", "F: width of the MLP", 1 << 22, "d-ff", "F",                        \
         "width inside the MLP; 4 x d-model when only d-model is given")                                           \
    FLAG(WORD, activation, activation, SHOWN, "activation",                                                        \
         "function between the products of the MLP; null: the model's own", SM_ACTIVATION_COUNT - 1, "activation", \
         NULL, "function between the products of the MLP: GELU, or squared ReLU (relu2); not given: gelu")         \
    KEPT(SWITCH, untied, untied, QUIET, "head of its own", "whether the head has a matrix of its own", 1)          \
    KEPT(REAL, norm_eps, norm_eps, QUIET, "epsilon", "epsilon of the norms", 1)                                    \
    KEPT(REAL, rope_theta, rope_theta, QUIET, "theta", "base of rotary positions", 1)
