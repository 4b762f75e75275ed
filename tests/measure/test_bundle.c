// Bundles and the leaderboard: what is bundled comes back, what was changed by a byte is refused, rows that do not
// compare are left out or marked, and the fastest row of each machine stands in its place.
#include "tests/support/made_row.h"
#include "tests/support/run_program.h"
#include "bench/compare/compare.h"

static json_t *make_row(const char *processor, const char *mode, double rate) {
    const double ns = 64e9 / rate;
    return json_pack(
        "{s:i, s:s, s:s, s:s, s:s, s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:s, s:s, s:f, s:f, s:f, s:I, s:s, "
        "s:[], s:b, s:[ffffff], s:[iiiiiii]}",
        "schema_version", 1, "status", "ok", "loss_check", "by the reference", "cpu_info", processor, "mode", mode,
        "model_type", "tiny", "n_batch", 1, "n_seq", 64, "n_layer", 1, "d_model", 1, "d_ff", 1, "vocab", 1,
        "model_n_params", 3, "flops", 2000, "precision", "fp32", "noise_verdict", "steady", "median_ns", ns,
        "median_ts", rate, "energy_per_token_j", 0.5, "peak_rss_bytes", (json_int_t)1 << 30, "device", "cpu",
        "warnings", "emulated", 0, "samples_ns", ns, ns, ns, ns, ns, ns, "losses", 3, 3, 3, 3, 3, 3, 3);
}

static sm_status read_bundle(const char *name, json_t **rows) { return sm_bundle_read(temp_path(name), rows); }

TEST(a_changed_byte_is_refused) {
    json_auto_t *rows = json_pack("[oo]", make_row("A", "fused", 100), make_row("A", "naive", 50));
    json_auto_t *machine = json_pack("{s:s}", "host", "here");
    json_t *read = NULL;
    SM_FREED char *text = NULL;
    size_t size_bytes = 0;
    json_object_set_new(json_array_get(rows, 1), "own_kernels", json_pack("[s]", "gelu_forward=x.so"));
    sm_bundle_make(rows, machine, &text, &size_bytes);
    temp_put("whole", text, size_bytes);
    expect_failure("a list", read_bundle("whole", &read), SM_ERR_FORMAT,
                   "row 2|field own_kernels: a value of the wrong");
    free(text);
    json_object_del(json_array_get(rows, 1), "own_kernels");
    sm_bundle_make(rows, machine, &text, &size_bytes);
    temp_put("whole", text, size_bytes);
    assert_int_equal(read_bundle("whole", &read), SM_OK);
    assert_true(json_equal(read, rows));
    json_decref(read);
    for (size_t i = 0; i < size_bytes; i++) {
        text[i] ^= 1;
        temp_put("changed", text, size_bytes);
        text[i] ^= 1;
        FAIL_IF(read_bundle("changed", &read) != SM_ERR_FORMAT, "byte %zu was changed, and nobody noticed", i);
    }
    temp_put("changed", text, size_bytes - 1);
    assert_int_equal(read_bundle("changed", &read), SM_ERR_FORMAT);
    temp_put("changed", "", 0);
    assert_int_equal(read_bundle("changed", &read), SM_ERR_FORMAT);
}

static const char *text_at(const json_t *records, size_t i, const char *name) {
    return json_string_value(json_object_get(json_array_get(records, i), name));
}

TEST(the_fastest_of_each_machine_has_a_place) {
    json_auto_t *rows = json_array();
    json_array_append_new(rows, make_row("A", "naive", 50));
    json_array_append_new(rows, make_row("A", "fused", 100));
    json_array_append_new(rows, make_row("B", "fused", 200));
    json_t *emulated = with_members(make_row("C", "fused", 300), "'emulated': true");
    json_array_append_new(rows, emulated);
    json_array_append_new(rows, with_members(make_row("D", "fused", 900), "'status': 'error'"));
    json_t *unchecked = make_row("E", "fused", 900);
    json_object_del(unchecked, "loss_check");
    json_array_append_new(rows, unchecked);
    json_array_append_new(rows, with_members(make_row("A", "fused", 10), "'n_seq': 128"));
    json_auto_t *records = NULL;
    json_auto_t *refused = NULL;
    sm_leaderboard_make(rows, NULL, NULL, &records, &refused);
    assert_int_equal(json_array_size(refused), 2);
    assert_string_equal(text_at(refused, 0, "machine"), "D");
    assert_string_equal(text_at(refused, 0, "status"), "error");
    assert_string_equal(text_at(refused, 1, "reason"), "its loss was not checked");
    assert_int_equal(json_array_size(records), 4);
    assert_string_equal(text_at(records, 0, "machine"), "C");
    assert_string_equal(text_at(records, 0, "marks"), "emulated");
    assert_string_equal(text_at(records, 1, "machine"), "B");
    assert_string_equal(text_at(records, 2, "machine"), "A");
    assert_string_equal(text_at(records, 2, "mode"), "fused");
    assert_int_equal(json_integer_value(json_object_get(json_array_get(records, 3), "place")), 1);
    assert_true(json_number_value(json_object_get(json_array_get(records, 1), "tokens_per_joule")) == 2);
    assert_true(json_number_value(json_object_get(json_array_get(records, 1), "tokens_per_s_gib")) == 200);
}

// Two works that the shown columns do not tell apart get a column that does.
TEST(places_of_two_widths) {
    json_auto_t *rows = json_array();
    json_t *wide = make_row("A", "fused", 100);
    json_t *narrow = make_row("B", "fused", 900);
    json_object_set_new(wide, "d_model", json_integer(128));
    json_object_set_new(narrow, "d_model", json_integer(64));
    json_array_append_new(rows, wide);
    json_array_append_new(rows, narrow);
    json_auto_t *records = NULL;
    json_auto_t *refused = NULL;
    sm_leaderboard_make(rows, NULL, NULL, &records, &refused);
    assert_int_equal(json_array_size(records), 2);
    assert_string_equal(text_at(records, 0, "machine"), "B");
    assert_null(text_at(records, 0, "work"));
    assert_string_equal(text_at(records, 1, "work"), "d_model 128");

    json_object_set_new(wide, "d_model", json_integer(64));
    sm_json_set_new(wide, "loop.n_processes", json_integer(4)); // a row without it is of one
    json_decref(records);
    json_decref(refused);
    sm_leaderboard_make(rows, NULL, NULL, &records, &refused);
    assert_string_equal(text_at(records, 1, "work"), "loop.n_processes 4");
}

// Whoever brought the fastest kernel: it is marked, and is not held against this program's.
TEST(code_of_ones_own_is_ranked_apart) {
    json_auto_t *rows = json_array();
    json_t *own = with_members(make_row("A", "fused", 900), "'own_kernels': 'own backend my.so (fnv1a64:1)'");
    json_array_append_new(rows, own);
    json_array_append_new(rows, make_row("A", "fused", 100));
    json_array_append_new(
        rows, with_members(make_row("B", "fused", 200), "'own_kernels': 'gelu_forward=other.c (fnv1a64:2)'"));
    json_t *library = make_row("C", "fused", 300); // of before backends ran apart
    json_object_set_new(library, "own_kernels", json_string("backend my.so (fnv1a64:3)"));
    json_array_append_new(rows, library);
    json_auto_t *records = NULL;
    json_auto_t *refused = NULL;
    sm_leaderboard_make(rows, NULL, NULL, &records, &refused);
    assert_int_equal(json_array_size(records), 3);
    assert_int_equal(json_array_size(refused), 1);
    assert_string_equal(text_at(refused, 0, "machine"), "C");
    for (size_t i = 0; i < 3; i++) {
        static const char *const machines[] = {"A", "A", "B"};
        static const char *const codes[] = {NULL, "own backend my.so (fnv1a64:1)", "gelu_forward=other.c (fnv1a64:2)"};
        static const int places[] = {1, 1, 2};
        const char *marks = text_at(records, i, "marks");
        assert_string_equal(text_at(records, i, "machine"), machines[i]);
        assert_int_equal(json_integer_value(json_object_get(json_array_get(records, i), "place")), places[i]);
        assert_int_equal(marks != NULL && strstr(marks, "own code") != NULL, codes[i] != NULL);
        if (codes[i] != NULL) {
            assert_string_equal(text_at(records, i, "own_kernels"), codes[i]);
        }
    }
}

// The program's own rows take part where a user's have their work, are marked, and are checked as these.
TEST(references_stand_beside) {
    json_auto_t *rows = json_pack("[o]", make_row("A", "fused", 100));
    json_t *references = json_pack("[oooo]", make_row("R", "fused", 300), make_row("A", "fused", 200),
                                   make_row("R", "fused", 900), make_row("S", "fused", 800));
    json_object_set_new(json_array_get(references, 2), "n_seq", json_integer(999));
    json_object_set_new(json_array_get(references, 3), "loss_check", json_null());
    json_t *records = NULL, *refused = NULL;
    sm_leaderboard_make(rows, references, NULL, &records, &refused);
    assert_int_equal(json_array_size(records), 3);
    for (size_t i = 0; i < 3; i++) {
        static const char *const machines[] = {"R", "A", "A"}; // a reference is never a row of the user's machine
        assert_string_equal(text_at(records, i, "machine"), machines[i]);
        assert_int_equal(json_is_true(json_object_get(json_array_get(records, i), "reference")), i < 2);
        assert_int_equal(text_at(records, i, "marks") != NULL && strstr(text_at(records, i, "marks"), "reference"),
                         i < 2);
    }
    assert_int_equal(json_array_size(refused), 1);
    json_decref(records);
    json_decref(refused);
    json_array_clear(rows);
    sm_leaderboard_make(rows, references, NULL, &records, &refused);
    assert_int_equal(json_array_size(records), 3); // all of them
    json_decref(records);
    json_decref(refused);
    json_decref(references);
    references = sm_bundle_references(); // the program's own: each counts
    sm_leaderboard_make(rows, references, NULL, &records, &refused);
    assert_true(json_array_size(records) > 0);
    assert_int_equal(json_array_size(refused), 0);
    json_decref(records);
    json_decref(refused);
    json_decref(references);
}

TEST(the_program_bundles_and_compares) {
    json_auto_t *rows = json_pack("[o]", make_row("A", "fused", 100));
    SM_FREED char *text = json_dumps(rows, 0);
    temp_put("rows.json", text, strlen(text));
    CHECK_ALL(
        {"report $T/rows.json --bundle $T/a.bundle", 0, NULL, "1 row, "},
        {"report --rank $T/a.bundle", 0, "| machine", NULL},
        {"report --rank $T/a.bundle -o json", 0, "\"tokens_per_joule\": 2", NULL},
        {"report --rank $T/rows.json", 1, NULL, "no bundle"},
        {"report --rank $T/a.bundle --page $T/board.html", 0, NULL, "board.html: "},
        {"report --rank $T/rows.json --page $T/none.html; ls $T/none.html", 2, NULL, "No such file"},
        {"report --rank --no-reference", 2, NULL, "give bundles"},
        {"report --rank", 0, "NVIDIA H100", "came with stepmark"},
        {"report --rank $T/a.bundle", 0, NULL, "no reference row did this work"},
        {"report --rank $T/a.bundle --no-reference; cp bench/results/h100-80gb.bundle $T/h.bundle", 0, NULL, NULL},
        {"report --rank $T/h.bundle --page $T/h.html", 0, "reference", "h.html"},
        {"report $T/rows.json --bundle", 2, NULL, "--bundle: needs an argument"},
        {"report $T/none --bundle $T/b", 1, NULL, "cannot open"},
        {"report $T/a.bundle -o csv --columns n_seq; sed s/100/101/ $T/a.bundle >$T/changed.bundle", 0, "n_seq\n64\n",
         ""},
        {"compare $T/h.bundle $T/h.bundle", 0, "no-difference", NULL},
        {"report $T/changed.bundle", 1, NULL, "changed.bundle: was changed after it was made"});
    assert_null(strstr(err, "skipped"));
}
