// test_hf_config.c: config.json: what is read, refused (with the reason) and written.

#include "tests/support/temp_folder.h"
#include "src/weights/model_folder.h"

// A GPT-2 of these dimensions.
#define CONFIG(eps, ...) \
    { SM_DIMENSIONS(gpt2, __VA_ARGS__), .norm_eps = eps }

static const char BASE_CONFIG[] = "{\"model_type\": \"gpt2\", \"vocab_size\": 100, \"n_positions\": 32, \"n_embd\": "
                                  "24, \"n_layer\": 3, \"n_head\": 4, \"unknown\": [1, {}]}";

static const char LLAMA_CONFIG[] =
    "{\"model_type\": \"llama\", \"vocab_size\": 100, \"max_position_embeddings\": 32, \"hidden_size\": 24, "
    "\"intermediate_size\": 50, \"num_hidden_layers\": 3, \"num_attention_heads\": 4, \"unknown\": [1, {}]}";

// A Llama of LLAMA_CONFIG's dimensions, but for these.
#define LLAMA(NKV, eps, theta, has_head)                                                                     \
    {                                                                                                        \
        SM_DIMENSIONS(llama, 3, 4, 24, 50, 100, 32), .n_kv_head = NKV, .norm_eps = eps, .rope_theta = theta, \
                                                     .untied = has_head                                      \
    }

// Writes the base config with `changes` (JSON; null removes a key, "NULL" makes it null), and reads it.
static sm_status read_changed(const char *base, const char *changes, sm_model_config *config) {
    const char *path = temp_path("config.json");
    json_auto_t *root = json_loads(base, 0, NULL);
    json_auto_t *changed = json_loads(changes, 0, NULL);
    const char *key;
    json_t *value;
    assert_non_null(changed);
    json_object_foreach(changed, key, value) {
        if (json_is_null(value)) {
            json_object_del(root, key);
        } else if (json_is_string(value) && strcmp(json_string_value(value), "NULL") == 0) {
            json_object_set_new(root, key, json_null());
        } else {
            json_object_set(root, key, value);
        }
    }
    assert_int_equal(json_dump_file(root, path, 0), 0);
    return sm_hf_config_read(path, config);
}

static void expect_config(const char *label, const sm_model_config *config, const sm_model_config *expected) {
    FAIL_IF(memcmp(config, expected, sizeof *config) != 0, "%s: the config differs", label);
}

// What the base config with changes is read as.
typedef struct {
    const char *changes;
    sm_model_config config;
} reading;

static void expect_readings(const char *base, const reading *cases, size_t n) {
    for (size_t i = 0; i < n; i++) {
        sm_model_config config;
        expect_ok(cases[i].changes, read_changed(base, cases[i].changes, &config));
        expect_config(cases[i].changes, &config, &cases[i].config);
    }
}

// Why it is refused.
typedef struct {
    const char *changes;
    sm_status status;
    const char *message;
} refusal;

static void expect_refusals(const char *base, const refusal *cases, size_t n) {
    for (size_t i = 0; i < n; i++) {
        sm_model_config config;
        expect_failure(cases[i].changes, read_changed(base, cases[i].changes, &config), cases[i].status,
                       textf("config.json|%s", cases[i].message));
    }
}

#define EXPECT_ALL(expect, base, cases) expect(base, cases, sizeof(cases) / sizeof((cases)[0]))

TEST(good_configs_are_read) {
    static const reading cases[] = {
        {"{}", CONFIG(1e-5, 3, 4, 24, 96, 100, 32)},
        {"{\"n_inner\": \"NULL\"}", CONFIG(1e-5, 3, 4, 24, 96, 100, 32)},
        {"{\"n_inner\": 7}", CONFIG(1e-5, 3, 4, 24, 7, 100, 32)},
        {"{\"n_ctx\": 16}", CONFIG(1e-5, 3, 4, 24, 96, 100, 32)},
        {"{\"n_positions\": null, \"n_ctx\": 16}", CONFIG(1e-5, 3, 4, 24, 96, 100, 16)},
        {"{\"layer_norm_epsilon\": 1e-6}", CONFIG(1e-6, 3, 4, 24, 96, 100, 32)},
        {"{\"layer_norm_epsilon\": 0}", CONFIG(0, 3, 4, 24, 96, 100, 32)},
        {"{\"activation_function\": \"gelu_new\"}", CONFIG(1e-5, 3, 4, 24, 96, 100, 32)},
        {"{\"activation_function\": \"gelu_pytorch_tanh\"}", CONFIG(1e-5, 3, 4, 24, 96, 100, 32)},
        {"{\"activation_function\": \"relu2\"}",
         {SM_DIMENSIONS(gpt2, 3, 4, 24, 96, 100, 32), .norm_eps = 1e-5, .activation = SM_ACTIVATION_RELU2}},
        {"{\"tie_word_embeddings\": true, \"scale_attn_weights\": true, \"scale_attn_by_inverse_layer_idx\": false, "
         "\"add_cross_attention\": false, \"reorder_and_upcast_attn\": true}",
         CONFIG(1e-5, 3, 4, 24, 96, 100, 32)},
    };
    EXPECT_ALL(expect_readings, BASE_CONFIG, cases);
}

TEST(bad_configs_are_refused_by_key) {
    static const refusal cases[] = {
        {"{\"model_type\": null}", SM_ERR_FORMAT, "has no model_type"},
        {"{\"model_type\": 2}", SM_ERR_FORMAT, "model_type|string"},
        {"{\"model_type\": \"mistral\"}", SM_ERR_UNSUPPORTED, "model_type is 'mistral'|'gpt2'|'llama'"},
        {"{\"model_type\": \"a\\nb\"}", SM_ERR_UNSUPPORTED, "model_type|'gpt2'"},
        {"{\"architectures\": [\"GPT2ForSequenceClassification\"]}", SM_ERR_UNSUPPORTED,
         "architectures has 'GPT2ForSequenceClassification'|GPT2LMHeadModel"},
        {"{\"architectures\": [1]}", SM_ERR_UNSUPPORTED, "architectures has '?'"},
        {"{\"vocab_size\": null}", SM_ERR_FORMAT, "has no vocab_size"},
        {"{\"n_positions\": null}", SM_ERR_FORMAT, "has no n_positions"},
        {"{\"n_embd\": null}", SM_ERR_FORMAT, "has no n_embd"},
        {"{\"n_layer\": \"NULL\"}", SM_ERR_FORMAT, "n_layer|whole number"},
        {"{\"n_head\": \"4\"}", SM_ERR_FORMAT, "n_head|whole number"},
        {"{\"n_embd\": 24.0}", SM_ERR_FORMAT, "n_embd|whole number"},
        {"{\"n_embd\": true}", SM_ERR_FORMAT, "n_embd|whole number"},
        {"{\"n_inner\": \"96\"}", SM_ERR_FORMAT, "n_inner|whole number"},
        {"{\"n_inner\": 0}", SM_ERR_INVALID, "n_inner is 0"},
        {"{\"n_layer\": 0}", SM_ERR_INVALID, "n_layer is 0"},
        {"{\"n_layer\": -1}", SM_ERR_INVALID, "n_layer is -1"},
        {"{\"n_layer\": 2147483647}", SM_ERR_INVALID, "n_layer is 2147483647"},
        {"{\"vocab_size\": 2147483648}", SM_ERR_INVALID, "vocab_size is 2147483648"},
        {"{\"vocab_size\": 9223372036854775807}", SM_ERR_INVALID, "vocab_size is 9223372036854775807"},
        {"{\"n_embd\": 2147483644}", SM_ERR_INVALID, "2147483644"},
        {"{\"n_head\": 5}", SM_ERR_INVALID, "n_embd 24|n_head 5"},
        {"{\"layer_norm_epsilon\": \"1e-5\"}", SM_ERR_FORMAT, "layer_norm_epsilon|number"},
        {"{\"layer_norm_epsilon\": -1e-5}", SM_ERR_INVALID, "layer_norm_epsilon is -1e-05"},
        {"{\"layer_norm_epsilon\": 1}", SM_ERR_INVALID, "layer_norm_epsilon is 1"},
        {"{\"activation_function\": \"gelu\"}", SM_ERR_UNSUPPORTED, "activation_function is \"gelu\"|\"gelu_new\""},
        {"{\"activation_function\": \"relu\"}", SM_ERR_UNSUPPORTED, "activation_function is \"relu\""},
        {"{\"activation_function\": [1]}", SM_ERR_UNSUPPORTED, "activation_function is [1]"},
        {"{\"tie_word_embeddings\": false}", SM_ERR_UNSUPPORTED, "tie_word_embeddings is false"},
        {"{\"tie_word_embeddings\": 1}", SM_ERR_UNSUPPORTED, "tie_word_embeddings is 1"},
        {"{\"scale_attn_weights\": false}", SM_ERR_UNSUPPORTED, "scale_attn_weights is false"},
        {"{\"scale_attn_by_inverse_layer_idx\": true}", SM_ERR_UNSUPPORTED, "scale_attn_by_inverse_layer_idx is true"},
        {"{\"add_cross_attention\": true}", SM_ERR_UNSUPPORTED, "add_cross_attention is true"},
    };
    EXPECT_ALL(expect_refusals, BASE_CONFIG, cases);
}

TEST(llama_configs_are_read) {
    static const reading cases[] = {
        {"{}", LLAMA(4, 1e-6, 1e4, true)},
        {"{\"num_key_value_heads\": \"NULL\", \"rope_scaling\": \"NULL\"}", LLAMA(4, 1e-6, 1e4, true)},
        {"{\"num_key_value_heads\": 2, \"head_dim\": 6, \"hidden_act\": \"silu\"}", LLAMA(2, 1e-6, 1e4, true)},
        {"{\"rms_norm_eps\": 1e-5, \"rope_theta\": 500000}", LLAMA(4, 1e-5, 5e5, true)},
        {"{\"rope_parameters\": {\"rope_type\": \"default\", \"rope_theta\": 500000.0}}", LLAMA(4, 1e-6, 5e5, true)},
        {"{\"tie_word_embeddings\": true, \"attention_bias\": false, \"mlp_bias\": false}", LLAMA(4, 1e-6, 1e4, false)},
    };
    EXPECT_ALL(expect_readings, LLAMA_CONFIG, cases);
}

static const char QWEN3_CONFIG[] =
    "{\"model_type\": \"qwen3\", \"vocab_size\": 100, \"max_position_embeddings\": 32, \"hidden_size\": 24, "
    "\"intermediate_size\": 50, \"num_hidden_layers\": 3, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, "
    "\"head_dim\": 8, \"sliding_window\": null, \"use_sliding_window\": false, \"max_window_layers\": 3}";

#define QWEN3(NKV, HS, eps, has_head)                                                                   \
    {                                                                                                   \
        SM_DIMENSIONS(qwen3, 3, 4, 24, 50, 100, 32), .n_kv_head = NKV, .head_dim = HS, .norm_eps = eps, \
                                                     .rope_theta = 1e4, .untied = has_head              \
    }

TEST(qwen3_configs_are_read) {
    static const reading cases[] = {
        {"{}", QWEN3(2, 8, 1e-6, true)},
        {"{\"head_dim\": 6, \"tie_word_embeddings\": true}", QWEN3(2, 0, 1e-6, false)}, // as of the other widths
        {"{\"layer_types\": [\"full_attention\", \"full_attention\", \"full_attention\"]}", QWEN3(2, 8, 1e-6, true)},
        {"{\"layer_types\": \"NULL\", \"sliding_window\": 4096, \"rms_norm_eps\": 1e-5}", QWEN3(2, 8, 1e-5, true)},
    };
    EXPECT_ALL(expect_readings, QWEN3_CONFIG, cases);
}

TEST(bad_qwen3_configs_are_refused_by_key) {
    static const refusal cases[] = {
        {"{\"head_dim\": null}", SM_ERR_FORMAT, "has no head_dim"},
        {"{\"num_key_value_heads\": null}", SM_ERR_FORMAT, "has no num_key_value_heads"},
        {"{\"head_dim\": 5}", SM_ERR_INVALID, "5 channels"},
        {"{\"use_sliding_window\": true}", SM_ERR_UNSUPPORTED, "use_sliding_window is true"},
        {"{\"layer_types\": [\"full_attention\", \"sliding_attention\", \"full_attention\"]}", SM_ERR_UNSUPPORTED,
         "layer 1"},
        {"{\"layer_types\": [1, 2, 3]}", SM_ERR_UNSUPPORTED, "layer_types|layer 0"},
        {"{\"layer_types\": [\"full_attention\"]}", SM_ERR_FORMAT, "layer_types does not list 3 layers"},
        {"{\"layer_types\": \"full_attention\"}", SM_ERR_FORMAT, "layer_types does not list 3 layers"},
        {"{\"architectures\": [\"Qwen3MoeForCausalLM\"]}", SM_ERR_UNSUPPORTED, "Qwen3ForCausalLM"},
    };
    EXPECT_ALL(expect_refusals, QWEN3_CONFIG, cases);
}

TEST(bad_llama_configs_are_refused_by_key) {
    static const refusal cases[] = {
        {"{\"hidden_size\": null}", SM_ERR_FORMAT, "has no hidden_size"},
        {"{\"intermediate_size\": null}", SM_ERR_FORMAT, "has no intermediate_size"},
        {"{\"num_key_value_heads\": 3}", SM_ERR_INVALID, "num_attention_heads 4|num_key_value_heads 3"},
        {"{\"num_key_value_heads\": 8}", SM_ERR_INVALID, "num_attention_heads 4|num_key_value_heads 8"},
        {"{\"num_key_value_heads\": \"2\"}", SM_ERR_FORMAT, "num_key_value_heads|whole number"},
        {"{\"num_attention_heads\": 5}", SM_ERR_INVALID, "hidden_size 24|num_attention_heads 5"},
        {"{\"num_attention_heads\": 8}", SM_ERR_INVALID, "3 channels"},
        {"{\"head_dim\": 7}", SM_ERR_INVALID, "7 channels"},
        {"{\"head_dim\": 0}", SM_ERR_INVALID, "head_dim is 0"},
        {"{\"rope_theta\": 0}", SM_ERR_INVALID, "rope_theta is 0"},
        {"{\"rope_theta\": \"1e4\"}", SM_ERR_FORMAT, "rope_theta|number"},
        {"{\"rms_norm_eps\": 2}", SM_ERR_INVALID, "rms_norm_eps is 2"},
        {"{\"attention_bias\": true}", SM_ERR_UNSUPPORTED, "attention_bias is true"},
        {"{\"mlp_bias\": true}", SM_ERR_UNSUPPORTED, "mlp_bias is true"},
        {"{\"architectures\": [\"MistralForCausalLM\"]}", SM_ERR_UNSUPPORTED, "'MistralForCausalLM'|LlamaForCausalLM"},
        {"{\"sliding_window\": 4096}", SM_ERR_UNSUPPORTED, "sliding_window"},
        {"{\"hidden_act\": \"gelu\"}", SM_ERR_UNSUPPORTED, "hidden_act is \"gelu\"|\"silu\""},
        {"{\"tie_word_embeddings\": 1}", SM_ERR_FORMAT, "tie_word_embeddings|neither"},
    };
    EXPECT_ALL(expect_refusals, LLAMA_CONFIG, cases);
}

// Each spelling of rotary positions that transformers reads: its theta, or the key that is refused.
TEST(plain_rotary_positions_are_read_in_every_spelling) {
    static const struct {
        const char *changes;
        double theta;
        const char *refused;
    } cases[] = {
        {"{}", 1e4, NULL},
        {"{\"rope_theta\": 500}", 500, NULL},
        {"{\"rope_parameters\": {\"rope_type\": \"default\", \"rope_theta\": 500.0}}", 500, NULL},
        {"{\"rope_parameters\": {\"rope_theta\": 500}, \"rope_theta\": 700}", 500, NULL},
        {"{\"rope_parameters\": {\"rope_type\": \"default\"}, \"rope_theta\": 500}", 500, NULL},
        {"{\"rope_parameters\": {\"type\": \"default\"}}", 1e4, NULL},
        {"{\"rope_parameters\": {}, \"rope_theta\": 500}", 500, NULL},
        {"{\"rope_parameters\": \"NULL\", \"rope_scaling\": \"NULL\", \"rope_theta\": 500}", 500, NULL},
        {"{\"rope_scaling\": {\"rope_type\": \"default\", \"rope_theta\": 500}, \"rope_theta\": 700}", 500, NULL},
        {"{\"rope_scaling\": {\"type\": \"default\"}, \"rope_parameters\": {\"rope_theta\": 500}}", 1e4, NULL},
        {"{\"rope_scaling\": {}, \"rope_parameters\": {\"rope_theta\": 500}}", 500, NULL},
        {"{\"rope_scaling\": {\"type\": \"default\", \"factor\": 1.0, \"partial_rotary_factor\": 1}}", 1e4, NULL},
        {"{\"rope_scaling\": {\"type\": \"linear\", \"factor\": 2}}", 0, "rope_scaling.type is \"linear\""},
        {"{\"rope_parameters\": {\"type\": \"yarn\", \"factor\": 4}}", 0, "rope_parameters.type is \"yarn\""},
        {"{\"rope_parameters\": {\"rope_type\": \"llama3\"}}", 0, "rope_parameters.rope_type is \"llama3\""},
        {"{\"rope_parameters\": {\"rope_type\": \"dynamic\", \"factor\": 2}}", 0, "rope_type is \"dynamic\""},
        {"{\"rope_scaling\": {\"rope_type\": \"longrope\"}}", 0, "rope_scaling.rope_type is \"longrope\""},
        {"{\"rope_scaling\": {\"rope_type\": null}}", 0, "rope_scaling.rope_type is null"},
        {"{\"rope_parameters\": {\"rope_theta\": 500, \"factor\": 2}}", 0, "rope_parameters.factor is 2"},
        {"{\"rope_parameters\": {\"partial_rotary_factor\": 0.5}}", 0, "rope_parameters.partial_rotary_factor is 0.5"},
        {"{\"partial_rotary_factor\": 0.25}", 0, "partial_rotary_factor is 0.25"},
        {"{\"rope_scaling\": {\"mrope_section\": [1, 1, 1]}}", 0, "rope_scaling.mrope_section"},
        {"{\"rope_parameters\": {\"full_attention\": {\"rope_theta\": 500}}}", 0, "rope_parameters.full_attention"},
        {"{\"rope_parameters\": {\"original_max_position_embeddings\": 16}}", 0, "original_max_position_embeddings"},
        {"{\"rope_scaling\": [1]}", 0, "rope_scaling is not an object"},
        {"{\"rope_parameters\": \"linear\"}", 0, "rope_parameters is not an object"},
        {"{\"rope_parameters\": {\"rope_theta\": \"1e4\"}}", 0, "rope_theta is not a number"},
        {"{\"rope_parameters\": {\"rope_theta\": null}, \"rope_theta\": 500}", 0, "rope_theta is not a number"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        sm_model_config config;
        const sm_status status = read_changed(LLAMA_CONFIG, cases[i].changes, &config);
        if (cases[i].refused != NULL) {
            expect_failure(cases[i].changes, status, status != SM_OK ? status : SM_ERR_UNSUPPORTED, cases[i].refused);
        } else {
            expect_ok(cases[i].changes, status);
            assert_true(config.rope_theta == cases[i].theta);
        }
    }
}

static void check_key(const char *base, const char *key, const json_t *entry) {
    sm_model_config before, after;
    const char *kind = json_string_value(json_array_get(entry, 0));
    json_auto_t *changes = json_object();
    expect_ok("base", read_changed(base, "{}", &before));
    for (size_t i = 1; i < json_array_size(entry); i++) { // the value; of a refused key, one that is fine, too
        const json_t *value = json_array_get(entry, i);
        json_object_set_new(changes, key, json_is_null(value) ? json_string("NULL") : json_deep_copy(value));
        SM_FREED char *text = json_dumps(changes, 0);
        const sm_status status = read_changed(base, text, &after);
        if (strcmp(kind, "refused") == 0 && i == 1) {
            expect_failure(text, status, SM_ERR_UNSUPPORTED, key);
        } else {
            expect_ok(text, status);
            FAIL_IF((memcmp(&before, &after, sizeof before) != 0) != (strcmp(kind, "computed") == 0),
                    "%s: should be %s", text, kind);
        }
    }
}

// What each key that transformers 5 knows means here. tests/peers/check_transformers.py holds the table to transformers.
TEST(every_key_of_transformers_is_computed_refused_or_irrelevant) {
    const struct {
        const char *arch, *base;
    } archs[] = {{"gpt2", BASE_CONFIG}, {"llama", LLAMA_CONFIG}, {"qwen3", QWEN3_CONFIG}};
    json_auto_t *table = json_load_file(SM_TEST_GOLDEN_DIR "/config_keys.json", JSON_REJECT_DUPLICATES, NULL);
    const char *key;
    json_t *entry;
    assert_non_null(table);
    for (size_t i = 0; i < sizeof archs / sizeof archs[0]; i++) {
        json_object_foreach(json_object_get(table, "common"), key, entry) { check_key(archs[i].base, key, entry); }
        json_object_foreach(json_object_get(table, archs[i].arch), key, entry) { check_key(archs[i].base, key, entry); }
    }
}

// What Python's json and editors write beyond JSON: where it has no meaning it is ignored, elsewhere it is no number.
TEST(marks_and_odd_numbers_are_tolerated) {
    static const struct {
        const char *text, *refused;
    } cases[] = {
        {"\xef\xbb\xbf{%s}", NULL},
        {"{%s, \"a\": Infinity, \"b\": [-Infinity, NaN], \"c\": {\"d\": NaN}}", NULL},
        {"{%s, \"model_max_length\": 1000000000000000019884624838656, \"e\": -1e999}", NULL},
        {"{%s, \"text\": \"NaN \\\"Infinity\\\\\", \"f\":NaN}", NULL},
        {"{%s, \"layer_norm_epsilon\": Infinity}", "layer_norm_epsilon is not a number"},
        {"{%s, \"n_inner\": NaN}", "n_inner is not a whole number"},
        {"{%s, \"n_inner\": 99999999999999999999}", "n_inner is not a whole number"},
        {"{%s, \"g\": Infinit}", "not JSON"},
        {"{%s, \"g\": nan}", "not JSON"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        static const char keys[] = "\"model_type\": \"gpt2\", \"vocab_size\": 100, \"n_positions\": 32, \"n_embd\": "
                                   "24, \"n_layer\": 3, \"n_head\": 4";
        static const sm_model_config expected = CONFIG(1e-5, 3, 4, 24, 96, 100, 32);
        char text[400];
        sm_model_config config;
        snprintf(text, sizeof text, cases[i].text, keys); // NOLINT: the formats are above
        const sm_status status = sm_hf_config_read(temp_put_text("odd.json", text), &config);
        if (cases[i].refused != NULL) {
            expect_failure(text, status, SM_ERR_FORMAT, cases[i].refused);
        } else {
            expect_ok(text, status);
            expect_config(text, &config, &expected);
        }
    }
}

TEST(files_that_are_no_config_are_refused) {
    sm_model_config config;
    const char *path = temp_path("no-config.json");
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"", "no-config.json|not JSON"},
        {"{\"n_embd\": 1,\n oops", "no-config.json|not JSON|line 2"},
        {"{\"a\n\": 1}", "no-config.json|not JSON"},
        {"[]", "no-config.json|not a JSON object"},
        {"{\"n_embd\": 1, \"n_embd\": 2}", "no-config.json|not JSON|uplicate"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        expect_failure(cases[i].text, sm_hf_config_read(temp_put_text("no-config.json", cases[i].text), &config),
                       SM_ERR_FORMAT, cases[i].message);
    }
    assert_int_equal(truncate(path, (1 << 20) + 1), 0);
    expect_failure("long", sm_hf_config_read(path, &config), SM_ERR_FORMAT, "1048577 bytes");
    assert_int_equal(unlink(path), 0);
    expect_failure("missing", sm_hf_config_read(path, &config), SM_ERR_IO, "no-config.json|No such file");
}

TEST(written_configs_are_read) {
    static const struct {
        sm_model_config config;
        double dropout_p;
        const char *has[5]; // lines of the file
    } cases[] = {
        {CONFIG(1e-5, 12, 12, 768, 3072, 50257, 1024),
         0.1,
         {"\"bos_token_id\": 50256,", "\"n_inner\": null,", "\"layer_norm_epsilon\": 1e-5,", "\"resid_pdrop\": 0.1,"}},
        {CONFIG(1.25e-6, 1, 1, 2, 3, 61, 5),
         0,
         {"\"eos_token_id\": null,", "\"n_inner\": 3,", "\"layer_norm_epsilon\": 1.25e-6,", "\"attn_pdrop\": 0.0,"}},
        {CONFIG(1.0 / 3, 1, 1, 2, 8, 61, 5), 0.2, {"\"model_type\": \"gpt2\",", "\"GPT2LMHeadModel\""}},
    };
    const char *path = temp_path("written.json");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        sm_model_config config;
        expect_ok("write", sm_hf_config_write(path, &cases[i].config, cases[i].dropout_p));
        expect_ok("read", sm_hf_config_read(path, &config));
        expect_config("written", &config, &cases[i].config);
        const char *text = file_text(path);
        for (int k = 0; cases[i].has[k] != NULL; k++) {
            FAIL_IF(strstr(text, cases[i].has[k]) == NULL, "no %s in %s", cases[i].has[k], text);
        }
    }
}
