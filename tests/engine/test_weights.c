// Models on disk: fresh ones, round trips through a session, files as others write them, files
// that do not fit, optimizer state.

#include "tests/support/session.h"
#include "tests/support/temp_folder.h"
#include "src/io/atomic_file.h"
#include "src/weights/weights.h"

// A GPT-2 of these dimensions.
#define CONFIG(eps, ...) \
    { SM_DIMENSIONS(gpt2, __VA_ARGS__), .norm_eps = eps }

static const sm_model_config tiny = {MODEL(gpt2, 2, 2, 8, 20, 11, 4)};

enum { TINY_SEED = 42, N_TINY_PARAMS = 2 + 12 * 2 + 2, MAX_ELEMS = 512 };

static sm_device *device;

static int set_up(void **state) {
    const sm_open_options options = {.n_threads = 1};
    return temp_folder_make(state) == 0 && sm_backend_find("reference")->open(0, &options, &device) == SM_OK ? 0 : -1;
}

static int tear_down(void **state) {
    device->backend->close(device);
    return temp_folder_remove(state);
}

static sm_session *open_with(const sm_optimizer *optimizer, sm_dtype dtype, double dropout_p) {
    const sm_plan_options options = {TRAINING_BY(optimizer, 1, 2, dtype), .dropout_p = dropout_p};
    const sm_plan_options forward = {.B = 1, .T = 2, .dtype = dtype, .dropout_p = dropout_p};
    return open_plan(device, build_plan(&tiny, optimizer != NULL ? &options : &forward, SM_MODE_NAIVE, 0));
}

static sm_session *open_session(sm_dtype dtype, bool optimizer, double dropout_p) {
    return open_with(optimizer ? &sm_optimizer_adamw : NULL, dtype, dropout_p);
}

// The numbers of a file's tensor, and how many; the caller's to free.
static float *read_tensor(const char *path, const char *name, int64_t *n) {
    SM_OWN(sm_safetensors) *file = NULL;
    expect_ok(path, sm_safetensors_open(path, &file));
    return array_values(file, name, n);
}

// Writes another text of the same length in a file, in the place of the first.
static void replace_in(const char *path, const char *old, const char *new) {
    size_t size_bytes;
    SM_FREED char *bytes = temp_read(path, &size_bytes);
    char *at = memmem(bytes, size_bytes, old, strlen(old));
    assert_true(at != NULL && strlen(new) == strlen(old));
    memcpy(at, new, strlen(new));
    temp_write(path, bytes, size_bytes);
}

// ---- fresh models ----

static void expect_golden_entry(const sm_safetensors *file, const sm_safetensors_entry *entry, const json_t *golden) {
    float values[MAX_ELEMS];
    const json_t *shape = json_object_get(golden, "shape");
    const char *element;
    json_t *value;
    assert_string_equal(entry->name, json_string_value(json_object_get(golden, "name")));
    assert_int_equal(entry->dtype, SM_ST_F32);
    assert_int_equal(entry->begin_bytes, json_integer_value(json_object_get(golden, "begin_bytes")));
    assert_int_equal(entry->n_dims, json_array_size(shape));
    for (int d = 0; d < entry->n_dims; d++) {
        assert_int_equal(entry->dims[d], json_integer_value(json_array_get(shape, (size_t)d)));
    }
    assert_true(entry->n_elems <= MAX_ELEMS);
    expect_ok(entry->name, sm_safetensors_read(file, entry, values));
    json_object_foreach(json_object_get(golden, "values"), element, value) {
        int e = atoi(element);
        FAIL_IF(!(fabs(values[e] - json_number_value(value)) <= 1e-6), "%s[%d] is %.9g, not %.9g", entry->name, e,
                values[e], json_number_value(value));
    }
}

TEST(a_fresh_model_is_the_golden_one) {
    const char *dir = temp_path("fresh");
    expect_ok("init", sm_weights_init(dir, &tiny, TINY_SEED));
    assert_int_equal(temp_count(dir), 2);

    json_auto_t *golden = json_load_file(SM_TEST_GOLDEN_DIR "/tiny_container.json", 0, NULL);
    const json_t *tensors = json_object_get(golden, "tensors");
    SM_OWN(sm_safetensors) *file = NULL;
    expect_ok("open", sm_safetensors_open(temp_path("fresh/model.safetensors"), &file));
    assert_int_equal(json_array_size(tensors), N_TINY_PARAMS);
    assert_int_equal(sm_safetensors_count(file), N_TINY_PARAMS);
    assert_string_equal(sm_safetensors_metadata(file, "format"), "pt");
    for (int i = 0; i < N_TINY_PARAMS; i++) {
        expect_golden_entry(file, sm_safetensors_at(file, i), json_array_get(tensors, (size_t)i));
    }

    sm_model_config config;
    expect_ok("config", sm_weights_read_config(dir, &config));
    assert_int_equal(config.d_ff, tiny.d_ff);
    assert_int_equal(config.n_head, tiny.n_head);
    assert_int_equal(config.context, tiny.context);
}

TEST(a_model_that_cannot_be_written_is_refused) {
    const char *deep = temp_path("no/such");
    sm_model_config wrong = tiny;
    wrong.n_head = 3;
    expect_failure("folder", sm_weights_init(deep, &tiny, 1), SM_ERR_IO, "no/such|No such file");
    expect_failure("config", sm_weights_init(deep, &wrong, 1), SM_ERR_INVALID, "heads");
}

// ---- round trips ----

TEST(a_session_saves_what_it_loaded) {
    static const struct {
        sm_dtype dtype;
        double dropout_p;
        const char *line; // of config.json
    } cases[] = {{SM_F32, 0, "\"embd_pdrop\": 0.0"}, {SM_F64, 0.25, "\"embd_pdrop\": 0.25"}};
    const char *from = temp_path("from");
    const char *to = temp_path("to");
    expect_ok("init", sm_weights_init(from, &tiny, 7));
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        SM_OWN(sm_session) *session = open_session(cases[i].dtype, false, cases[i].dropout_p);
        expect_ok("load", sm_weights_load(from, &tiny, session, NULL));
        expect_ok("save", sm_weights_save(to, &tiny, session, 0));
        shell("cmp $T/from/model.safetensors $T/to/model.safetensors");
        assert_non_null(strstr(file_text(temp_path("to/config.json")), cases[i].line));
    }
    SM_OWN(sm_model_folder) *late = NULL; // another save makes the new folder first
    expect_ok("begin", sm_model_folder_begin(temp_path("raced"), &late));
    shell(textf("cp $T/to/* %s && cp -r $T/from $T/raced && rm $T/raced/config.json", sm_model_folder_new(late)));
    expect_ok("commit", sm_model_folder_commit(late));
    shell("cmp $T/from/model.safetensors $T/raced/model.safetensors && cmp $T/to/config.json $T/raced/config.json");
}

TEST(only_the_same_config_loads) {
    static const struct {
        const char *label;
        sm_model_config config; // of the folder
        const char *message;
    } cases[] = {
        {"layers", CONFIG(1e-5, 1, 2, 8, 20, 11, 4), "config.json|n_layer is 1|with 2"},
        {"heads", CONFIG(1e-5, 2, 4, 8, 20, 11, 4), "config.json|n_head is 4|with 2"},
        {"width", CONFIG(1e-5, 2, 2, 10, 20, 11, 4), "config.json|d_model is 10|with 8"},
        {"inner", CONFIG(1e-5, 2, 2, 8, 32, 11, 4), "config.json|d_ff is 32|with 20"},
        {"vocabulary", CONFIG(1e-5, 2, 2, 8, 20, 12, 4), "config.json|vocab is 12|with 11"},
        {"context", CONFIG(1e-5, 2, 2, 8, 20, 11, 5), "config.json|context is 5|with 4"},
        {"epsilon", CONFIG(1e-6, 2, 2, 8, 20, 11, 4), "config.json|norm_eps is 1e-06|with 1e-05"},
    };
    SM_OWN(sm_session) *session = open_session(SM_F32, false, 0);
    const char *dir = temp_path("other");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        expect_ok("init", sm_weights_init(dir, &cases[i].config, 1));
        expect_failure(cases[i].label, sm_weights_load(dir, &tiny, session, NULL), SM_ERR_INVALID, cases[i].message);
    }
    const char *missing = temp_path("missing");
    expect_failure("missing", sm_weights_load(missing, &tiny, session, NULL), SM_ERR_IO,
                   "missing/config.json|nothing is downloaded");
}

// ---- files as others write them ----

// A change to the fresh model's file: a tensor left out, tensors added, prefixes dropped.
typedef struct {
    const char *label;
    bool without_prefix;
    const char *skip;           // full name; NULL: none
    sm_safetensors_spec add[2]; // filled with zeros; a null name ends them
    const char *message;        // NULL: it loads
} variant;

// Copies `from` to `to`, changed. Added tensors are zeros; a head that loads is a copy of its tied embedding.
static void write_variant(const char *from, const char *to, const variant *v) {
    static const float zeros[MAX_ELEMS] = {0};
    SM_OWN(sm_safetensors) *file = NULL;
    sm_safetensors_writer *writer;
    sm_safetensors_spec specs[N_TINY_PARAMS + 2];
    float values[MAX_ELEMS], tied[MAX_ELEMS] = {0};
    int n = 0;
    expect_ok("open", sm_safetensors_open(from, &file));
    for (int i = 0; i < sm_safetensors_count(file); i++) {
        const sm_safetensors_entry *entry = sm_safetensors_at(file, i);
        if (v->skip == NULL || strcmp(entry->name, v->skip) != 0) {
            specs[n] = (sm_safetensors_spec){.name = entry->name, .n_dims = entry->n_dims};
            specs[n].name += v->without_prefix ? strlen("transformer.") : 0;
            memcpy(specs[n++].dims, entry->dims, sizeof entry->dims);
        }
    }
    for (int i = 0; i < 2 && v->add[i].name != NULL; i++) {
        specs[n++] = v->add[i];
    }
    expect_ok("create", sm_safetensors_create(to, specs, n, n, NULL, 0, NULL, &writer));
    for (int i = 0; i < sm_safetensors_count(file); i++) {
        const sm_safetensors_entry *entry = sm_safetensors_at(file, i);
        if (v->skip == NULL || strcmp(entry->name, v->skip) != 0) {
            expect_ok("read", sm_safetensors_read(file, entry, values));
            expect_ok("append", sm_safetensors_append(writer, values, entry->n_elems));
        }
        if (strstr(entry->name, "wte") != NULL) {
            expect_ok("read", sm_safetensors_read(file, entry, tied));
        }
    }
    for (int i = 0; i < 2 && v->add[i].name != NULL; i++) {
        const bool is_tied = strcmp(v->add[i].name, "lm_head.weight") == 0 && v->message == NULL;
        int64_t n_elems = v->add[i].dims[0] * (v->add[i].n_dims > 1 ? v->add[i].dims[1] : 1);
        expect_ok("append", sm_safetensors_append(writer, is_tied ? tied : zeros, n_elems));
    }
    expect_ok("finish", sm_safetensors_finish(writer));
    sm_safetensors_end(writer);
}

TEST(variants_load_or_are_refused_by_name) {
    static const char wte[] = "transformer.wte.weight", bias[] = "transformer.ln_f.bias";
    static const variant cases[] = {
        {"as written", false, NULL, {{0}}, NULL},
        {"without the prefix", true, NULL, {{0}}, NULL},
        {"with masks", true, NULL, {{"h.0.attn.bias", 2, {4, 4}}, {"h.1.attn.masked_bias", 0, {1}}}, NULL},
        {"with prefixed masks", false, NULL, {{"transformer.h.0.attn.bias", 2, {4, 4}}}, NULL},
        {"with the tied head", false, NULL, {{"lm_head.weight", 2, {11, 8}}}, NULL},
        {"a head of its own", false, NULL, {{"lm_head.weight", 2, {11, 8}}}, "'lm_head.weight' is not|wte.weight|tied"},
        {"another head", false, NULL, {{"lm_head.weight", 2, {12, 8}}}, "'lm_head.weight' has shape [12, 8]|[11, 8]"},
        {"unknown", false, NULL, {{"transformer.h.2.ln_1.bias", 1, {8}}}, "'transformer.h.2.ln_1.bias' is not part"},
        {"an activation's name", false, NULL, {{"h.0.ln_1", 1, {8}}}, "'h.0.ln_1' is not part"},
        {"missing", false, bias, {{0}}, "'transformer.ln_f.bias' is missing"},
        {"twice", false, NULL, {{"ln_f.bias", 1, {8}}}, "'transformer.ln_f.bias' and 'ln_f.bias' are the same"},
        {"too long", false, bias, {{"ln_f.bias", 1, {9}}}, "'ln_f.bias' has shape [9]|needs [8]"},
        {"other dims", false, bias, {{"ln_f.bias", 2, {8, 1}}}, "'ln_f.bias' has shape [8, 1]|[8]"},
        {"transposed", false, wte, {{"wte.weight", 2, {8, 11}}}, "'wte.weight' has shape [8, 11]|needs"},
        {"padded", false, wte, {{"wte.weight", 2, {16, 8}}}, "'wte.weight' has shape [16, 8]|needs"},
        {"scalar", false, bias, {{"ln_f.bias", 0, {1}}}, "'ln_f.bias' has shape []|needs [8]"},
    };
    const char *fresh = temp_path("variants/fresh.safetensors");
    const char *path = temp_path("variants/model.safetensors");
    const char *dir = temp_path("variants");
    int64_t n_elems;
    expect_ok("init", sm_weights_init(dir, &tiny, 3));
    assert_int_equal(rename(path, fresh), 0);
    SM_FREED float *expected = read_tensor(fresh, wte, &n_elems);
    assert_int_equal(n_elems, 11 * 8);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        SM_OWN(sm_session) *session = open_session(SM_F32, false, 0);
        write_variant(fresh, path, &cases[i]);
        const bool loads = cases[i].message == NULL;
        expect_failure(cases[i].label, sm_weights_load(dir, &tiny, session, NULL), loads ? SM_OK : SM_ERR_FORMAT,
                       loads ? "" : cases[i].message);
        // All of the model is in the session, or nothing.
        SM_FREED float *values = tensor_values(session, sm_plan_find_tensor(session->plan, "wte.weight"), n_elems);
        for (int64_t e = 0; e < n_elems; e++) {
            assert_true(values[e] == (loads ? expected[e] : 0));
        }
    }
}

// ---- models in parts, without the prefix, and files of other kinds ----

// Writes a folder with `of`'s config: every n_parts-th tensor in each of that many parts, and an index if there are
// several. Names lose `prefix`.
static void write_parts(const char *of, const char *folder, int n_parts, const char *prefix) {
    SM_OWN(sm_safetensors) *file = NULL;
    json_t *map = json_object();
    shell(textf("mkdir -p %s && cp %s/config.json %s", folder, of, folder));
    expect_ok(of, sm_safetensors_open(textf("%s/model.safetensors", of), &file));
    for (int part = 0; part < n_parts; part++) {
        sm_safetensors_spec specs[64];
        sm_safetensors_writer *writer;
        float values[MAX_ELEMS];
        int n = 0;
        const char *name = n_parts > 1 ? textf("part-%d.safetensors", part) : "model.safetensors";
        for (int i = part; i < sm_safetensors_count(file); i += n_parts) {
            const sm_safetensors_entry *entry = sm_safetensors_at(file, i);
            const bool has_prefix = strncmp(entry->name, prefix, strlen(prefix)) == 0;
            specs[n] =
                (sm_safetensors_spec){.name = entry->name + (has_prefix ? strlen(prefix) : 0), .n_dims = entry->n_dims};
            memcpy(specs[n].dims, entry->dims, sizeof entry->dims);
            json_object_set_new(map, specs[n++].name, json_string(name));
        }
        name = textf("%s/%s", folder, name);
        expect_ok("create", sm_safetensors_create(name, specs, n, n, NULL, 0, NULL, &writer));
        for (int i = part; i < sm_safetensors_count(file); i += n_parts) {
            expect_ok("read", sm_safetensors_read(file, sm_safetensors_at(file, i), values));
            expect_ok("append", sm_safetensors_append(writer, values, sm_safetensors_at(file, i)->n_elems));
        }
        expect_ok("finish", sm_safetensors_finish(writer));
        sm_safetensors_end(writer);
    }
    json_auto_t *index = json_pack("{s:{}, s:o}", "metadata", "weight_map", map);
    const char *path = textf("%s/model.safetensors.index.json", folder);
    assert_true(n_parts == 1 || json_dump_file(index, path, 0) == 0);
}

static sm_session *open_model(const sm_model_config *config) {
    const sm_plan_options options = {.B = 1, .T = 2, .dtype = SM_F32};
    return open_plan(device, build_plan(config, &options, SM_MODE_NAIVE, 0));
}

// Both folders load into the same bits.
static void expect_same_model(const char *label, const sm_model_config *config, const char *one, const char *other) {
    SM_OWN(sm_session) *a = open_model(config);
    SM_OWN(sm_session) *b = open_model(config);
    expect_ok(label, sm_weights_load(one, config, a, NULL));
    expect_ok(label, sm_weights_load(other, config, b, NULL));
    for (int i = 0; i < a->plan->n_tensors; i++) {
        const sm_tensor *t = &a->plan->tensors[i];
        if (t->role == SM_ROLE_PARAMETER && t->is_saved) {
            SM_FREED float *left = tensor_values(a, i, t->real_elems);
            SM_FREED float *right = tensor_values(b, i, t->real_elems);
            assert_memory_equal(left, right, (size_t)t->real_elems * sizeof(float));
        }
    }
}

#define DECODER(name, has_head) \
    { MODEL(name, 2, 2, 8, 12, 11, 4), .n_kv_head = 1, .rope_theta = 1e4, .untied = has_head }

TEST(parts_and_names_without_prefix_are_the_same_model) {
    static const struct {
        sm_model_config config;
        const char *prefix;
    } cases[] = {{CONFIG(1e-5, 2, 2, 8, 20, 11, 4), "transformer."},
                 {DECODER(llama, true), "model."},
                 {DECODER(llama, false), "model."},
                 {DECODER(qwen3, true), "model."},
                 {DECODER(qwen3, false), "model."}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *whole = temp_path(textf("whole%zu", i));
        expect_ok("init", sm_weights_init(whole, &cases[i].config, 3));
        for (int form = 0; form < 3; form++) {
            const char *name = textf("parts%zu.%d", i, form);
            const char *parts = temp_path(name);
            write_parts(whole, parts, form > 0 ? 3 : 1, form != 1 ? cases[i].prefix : "");
            expect_same_model(name, &cases[i].config, whole, parts);
        }
    }
}

TEST(the_head_of_a_tied_model_replaces_its_embedding) {
    static const sm_model_config tied = DECODER(llama, false);
    const char *whole = temp_path("tied");
    const char *only = temp_path("only");
    expect_ok("init", sm_weights_init(whole, &tied, 3));
    write_parts(whole, only, 1, "");
    const char *path = temp_path("only/model.safetensors");
    replace_in(path, "\"model.embed_tokens.weight\":", "        \"lm_head.weight\"   :");
    expect_same_model("only the head", &tied, whole, only);
}

TEST(bad_indices_and_other_files_are_refused_by_name) {
    static const struct {
        const char *label;
        const char *index; // NULL: as written
        const char *gone;  // a file to remove first
        const char *other; // a file to write
        const char *message;
    } cases[] = {
        {"a missing part", NULL, "part-1.safetensors", NULL, "part-1.safetensors: cannot open|index.json lists"},
        {"nothing", NULL, "model.safetensors.index.json", NULL, "has no model.safetensors, and no|index.json"},
        {"a pickle", NULL, NULL, "pytorch_model.bin", "pytorch_model.bin: is not read|save_pretrained"},
        {"pickles", NULL, NULL, "pytorch_model.bin.index.json", "pytorch_model.bin.index.json: is not read"},
        {"a pointer", NULL, NULL, "part-2.safetensors", "part-2.safetensors: a Git LFS pointer|fetch the file"},
        {"no map", "{\"a\": 1}", NULL, NULL, "index.json: has no weight_map"},
        {"an empty map", "{\"weight_map\": {}}", NULL, NULL, "index.json: has no weight_map"},
        {"no names", "{\"weight_map\": {\"lm_head.weight\": 1}}", NULL, NULL, "'lm_head.weight'|same folder"},
        {"a path", "{\"weight_map\": {\"a\": \"../whole/model.safetensors\"}}", NULL, NULL, "'a'|same folder"},
        {"an absolute path", "{\"weight_map\": {\"a\": \"/etc/passwd\"}}", NULL, NULL, "'a'|same folder"},
        {"the folder", "{\"weight_map\": {\"a\": \"..\"}}", NULL, NULL, "'a'|same folder"},
        {"not there", "{\"weight_map\": {\"a\": \"part-0.safetensors\"}}", NULL, NULL,
         "tensor 'a' is not in part-0.safetensors"},
        {"too few parts", "{\"weight_map\": {\"transformer.wte.weight\": \"part-0.safetensors\"}}", NULL, NULL,
         "is missing"},
        {"no JSON", "version", NULL, NULL, "index.json: not JSON"},
    };
    static const char pointer[] = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n";
    const char *whole = temp_path("whole");
    const char *folder = temp_path("bad");
    expect_ok("init", sm_weights_init(whole, &tiny, 3));
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        SM_OWN(sm_session) *session = open_model(&tiny);
        write_parts(whole, folder, 3, "");
        const char *path = textf("%s/model.safetensors.index.json", folder);
        if (cases[i].index != NULL) {
            temp_write(path, cases[i].index, strlen(cases[i].index));
        }
        if (cases[i].other != NULL && strncmp(cases[i].other, "pytorch", 7) == 0) {
            assert_int_equal(unlink(path), 0);
        }
        if (cases[i].gone != NULL) {
            assert_int_equal(unlink(textf("%s/%s", folder, cases[i].gone)), 0);
        }
        path = textf("%s/%s", folder, cases[i].other != NULL ? cases[i].other : "");
        if (cases[i].other != NULL) {
            temp_write(path, pointer, strlen(pointer));
        }
        const sm_status status = sm_weights_load(folder, &tiny, session, NULL);
        expect_failure(cases[i].label, status, status != SM_OK ? status : SM_ERR_FORMAT, cases[i].message);
        if (cases[i].other != NULL) {
            assert_int_equal(unlink(path), 0);
        }
    }
    const char *file = temp_path("whole/model.safetensors");
    sm_model_config config;
    expect_failure("a file", sm_weights_read_config(file, &config), SM_ERR_INVALID,
                   "model.safetensors: is a file|folder");
}

// The same file with one tensor's dtype renamed to a type of the same size.
TEST(whole_numbers_are_no_weights) {
    const char *dir = temp_path("integers");
    expect_ok("init", sm_weights_init(dir, &tiny, 3));
    replace_in(temp_path("integers/model.safetensors"), "\"F32\"", "\"I32\"");
    SM_OWN(sm_session) *session = open_session(SM_F32, false, 0);
    expect_failure("I32", sm_weights_load(dir, &tiny, session, NULL), SM_ERR_UNSUPPORTED,
                   "'transformer.wte.weight' is I32");
}

// ---- optimizer state ----

// Fills every saved state with numbers that 8 bits hold, or checks that they are there. Returns how many tensors.
static int visit_state(sm_session *session, bool check) {
    int n = 0;
    for (int t = 0; t < session->plan->n_tensors; t++) {
        const sm_tensor *tensor = &session->plan->tensors[t];
        float values[MAX_ELEMS];
        if (tensor->role != SM_ROLE_OPTIMIZER || !tensor->is_saved) {
            continue;
        }
        n++;
        expect_ok(tensor->name, check ? sm_session_read(session, t, tensor->real_elems, values) : SM_OK);
        for (int64_t e = 0; e < tensor->real_elems; e++) {
            const float value = (float)((e + t) % 256);
            assert_true(!check || values[e] == value);
            values[e] = value;
        }
        expect_ok(tensor->name, sm_session_write(session, t, tensor->real_elems, values));
    }
    return n;
}

TEST(optimizer_state_comes_back) {
    const char *dir = temp_path("optimizer");
    const char *path = temp_path("optimizer/optimizer.safetensors");
    int64_t n, step = -1;
    expect_ok("init", sm_weights_init(dir, &tiny, 1));
    SM_OWN(sm_session) *session = open_session(SM_F32, true, 0);
    expect_ok("none", sm_weights_load(dir, &tiny, session, &step));
    assert_int_equal(step, 0);
    visit_state(session, false);
    expect_ok("save", sm_weights_save(dir, &tiny, session, 123456789012345));
    assert_int_equal(temp_count(dir), 3);

    SM_OWN(sm_session) *resumed = open_session(SM_F32, true, 0);
    expect_ok("load", sm_weights_load(dir, &tiny, resumed, &step));
    assert_int_equal(step, 123456789012345);
    assert_int_equal(visit_state(resumed, true), 2 * N_TINY_PARAMS);
    free(read_tensor(path, "m.wte.weight", &n));
    assert_int_equal(n, 11 * 8);
    free(read_tensor(path, "v.h.1.mlp.c_proj.bias", &n));
    assert_int_equal(n, 8);

    SM_OWN(sm_session) *stateless = open_session(SM_F32, false, 0);
    expect_failure("plan", sm_weights_load(dir, &tiny, stateless, &step), SM_ERR_INVALID, "the plan has no optimizer");
    expect_ok("without the state", sm_weights_save(dir, &tiny, stateless, 1));
    assert_int_equal(temp_count(dir), 2);
}

// Of every optimizer, and no other takes it.
TEST(the_state_of_every_optimizer_comes_back) {
    const char *dir = temp_path("every_optimizer");
    expect_ok("init", sm_weights_init(dir, &tiny, 1));
    for (int i = 0; i < sm_optimizer_count(); i++) {
        const sm_optimizer *optimizer = sm_optimizer_at(i);
        const sm_optimizer *other = sm_optimizer_at((i + 1) % sm_optimizer_count());
        int64_t step = -1;
        SM_OWN(sm_session) *session = open_with(optimizer, SM_F32, 0);
        SM_OWN(sm_session) *resumed = open_with(optimizer, SM_F32, 0);
        SM_OWN(sm_session) *of_other = open_with(other, SM_F32, 0);
        expect_ok("weights", sm_weights_load(dir, &tiny, session, NULL));
        const int n = visit_state(session, false);
        assert_true(n > 0);
        expect_ok(optimizer->name, sm_weights_save(dir, &tiny, session, i));
        expect_ok(optimizer->name, sm_weights_load(dir, &tiny, resumed, &step));
        assert_int_equal(step, i);
        assert_int_equal(visit_state(resumed, true), n);
        expect_failure(other->name, sm_weights_load(dir, &tiny, of_other, &step), SM_ERR_INVALID,
                       textf("state of %s, not of %s", optimizer->name, other->name));
    }
}

// A state with other weights, as after a copy of half a folder, is refused; one from before there were digests loads.
TEST(an_optimizer_state_of_other_weights_is_refused) {
    const char *dir = temp_path("ours");
    const char *other = temp_path("other_weights");
    const char *path = temp_path("ours/model.safetensors");
    int64_t step = -1;
    SM_OWN(sm_session) *session = open_session(SM_F32, true, 0);
    expect_ok("init", sm_weights_init(dir, &tiny, 1));
    expect_ok("load", sm_weights_load(dir, &tiny, session, NULL));
    expect_ok("save", sm_weights_save(dir, &tiny, session, 5));
    expect_ok("other", sm_weights_init(other, &tiny, 2));
    replace_in(path, "h.0.mlp.c_fc.weight", "h.?.mlp.c_fc.weight"); // two tensors of one shape exchange their contents
    replace_in(path, "h.1.mlp.c_fc.weight", "h.0.mlp.c_fc.weight");
    replace_in(path, "h.?.mlp.c_fc.weight", "h.1.mlp.c_fc.weight");
    sm_status status = sm_weights_load(dir, &tiny, session, &step);
    expect_failure("exchanged", status, SM_ERR_FORMAT, "optimizer.safetensors|belongs to other weights");
    shell("cp $T/other_weights/model.safetensors $T/ours");
    status = sm_weights_load(dir, &tiny, session, &step);
    expect_failure("other", status, SM_ERR_FORMAT, "optimizer.safetensors|belongs to other weights");
    assert_int_equal(step, 0);
    expect_ok("weights alone", sm_weights_load(dir, &tiny, session, NULL));
    replace_in(temp_path("ours/optimizer.safetensors"), "\"model\"", "\"other\""); // its digest has no key
    expect_ok("no digest", sm_weights_load(dir, &tiny, session, &step));
    assert_int_equal(step, 5);
}

TEST(a_part_beyond_the_tensor_is_refused) {
    SM_OWN(sm_session) *session = open_session(SM_F32, false, 0);
    int tensor = 0;
    while (!sm_plan_is_param(session->plan, tensor)) {
        tensor++;
    }
    const int64_t n = sm_tensor_elems(&session->plan->tensors[tensor]);
    SM_FREED float *values = sm_calloc((size_t)n, sizeof *values);
    expect_ok("whole", sm_session_write_part(session, tensor, 0, n, values));
    expect_ok("end", sm_session_write_part(session, tensor, n - 1, 1, values));
    expect_ok("nothing", sm_session_write_part(session, tensor, n, 0, values));
    expect_failure("long", sm_session_write_part(session, tensor, 1, n, values), SM_ERR_INTERNAL, "asked for");
    expect_failure("late", sm_session_write_part(session, tensor, n + 1, 0, values), SM_ERR_INTERNAL, "asked for");
    expect_failure("early", sm_session_write_part(session, tensor, -1, 1, values), SM_ERR_INTERNAL, "asked for");
    expect_failure("less", sm_session_write_part(session, tensor, 0, -1, values), SM_ERR_INTERNAL, "asked for");
}

static void expect_refused_optimizer(const char *label, const char *dir, const sm_safetensors_spec *spec,
                                     const sm_safetensors_pair *pairs, int n_pairs, sm_status status,
                                     const char *message) {
    SM_OWN(sm_session) *session = open_session(SM_F32, true, 0);
    sm_safetensors_writer *writer;
    int64_t step = -1;
    expect_ok("create", sm_safetensors_create(textf("%s/optimizer.safetensors", dir), spec, spec != NULL, spec != NULL,
                                              pairs, n_pairs, NULL, &writer));
    expect_ok("finish", sm_safetensors_finish(writer));
    sm_safetensors_end(writer);
    expect_failure(label, sm_weights_load(dir, &tiny, session, &step), status, message);
    assert_int_equal(step, 0);
}

TEST(bad_optimizer_files_are_refused) {
    char *steps = textf("x,-1,,1 , 1,+1,1.0,1e3,0x10,nan,99999999999999999999,9223372036854775807,1000000000000001");
    static const sm_safetensors_spec unknown = {"m.nothing", 1, {0}};
    static const sm_safetensors_pair good = {"step", "5"};
    const char *dir = temp_path("bad_optimizer");
    expect_ok("init", sm_weights_init(dir, &tiny, 1));
    for (char *step; (step = strsep(&steps, ",")) != NULL;) {
        const sm_safetensors_pair bad = {"step", step};
        expect_refused_optimizer(step, dir, NULL, &bad, 1, SM_ERR_FORMAT, "optimizer.safetensors|'step'");
    }
    expect_refused_optimizer("no step", dir, NULL, NULL, 0, SM_ERR_FORMAT, "optimizer.safetensors|'step'");
    expect_refused_optimizer("missing", dir, NULL, &good, 1, SM_ERR_FORMAT, "'m.wte.weight' is missing");
    expect_refused_optimizer("unknown", dir, &unknown, &good, 1, SM_ERR_FORMAT, "'m.nothing' is not part");
    static const sm_safetensors_pair other[] = {{"step", "1"}, {"optimizer", "no\n-such"}};
    static const sm_safetensors_pair named[] = {{"step", "1"}, {"optimizer", "sign"}};
    expect_refused_optimizer("other", dir, NULL, named, 2, SM_ERR_INVALID,
                             "state of sign, not of adamw|--optimizer sign");
    expect_refused_optimizer("no name", dir, NULL, other, 2, SM_ERR_INVALID, "state of ?, not of adamw");
}

AROUND_ALL(set_up, tear_down)
