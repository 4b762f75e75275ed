// added_tokens.h: the added tokens of a tokenizer, which the files of a folder list in five ways:
//
//     tokenizer.json            "added_tokens": [{"id": ..., "content": ..., "special": ..., "normalized": ...}, ...]
//     tokenizer_config.json     "added_tokens_decoder": {"ID": {"content": ...}, ...}; and names: "pad_token": "<pad>"
//     added_tokens.json         {"CONTENT": ID, ...}      } read only if tokenizer_config.json has no
//     special_tokens_map.json   {"pad_token": "<pad>"}    } added_tokens_decoder
//     vocab.json                any text of the vocabulary
//
// As in transformers, the first place that lists a content describes it, and one that is not in the vocabulary gets
// the next id.
#ifndef STEPMARK_ADDED_TOKENS_H
#define STEPMARK_ADDED_TOKENS_H

#include <jansson.h>

#include "status.h"

// A new array of {"content", "id" (if listed), "special", "normalized"} in the order of transformers.
// `folder` may be NULL (no other files), and so may `tokenizer`, the root of tokenizer.json at `path`. Refuses
// settings that would change the ids.
sm_status sm_added_tokens_list(const char *folder, const char *path, const json_t *tokenizer, json_t **list);

// Refuses keys that are not absent, null, false, zero or empty; `what` precedes a key in the message. The list of keys
// ends with NULL.
sm_status sm_tokenizer_check_off(const char *path, const json_t *object, const char *what, const char *const *keys);

#endif
