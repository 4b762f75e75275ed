// Named pipes where a file is expected: one without a writer, or without a reader, is refused at once and never waited
// for; one that has rows in it is read like a file.
#include "tests/support/run_program.h"

static int make_pipes(void **state) {
    return temp_folder_make(state) == 0 && system("cd $T && mkfifo pipe pipe.c pipe.cl pipe.so") == 0 ? 0 : -1;
}

TEST(nobody_writes) {
    CHECK_ALL(
        {"report --best $T/pipe", 1, NULL, "/pipe: an empty pipe without a writer"},
        {"report $T/pipe --output $T/page.html", 1, NULL, "without a writer"},
        {"compare $T/pipe $T/pipe", 1, NULL, "without a writer"}, {"compare $T/pipe#1", 1, NULL, "without a writer"},
        {"report $T/pipe --bundle $T/bundle", 1, NULL, "without a writer"},
        {"report --rank $T/pipe", 1, NULL, "without a writer"}, {"run --file $T/pipe", 1, NULL, "without a writer"},
        {"report --check $T/pipe", 1, "/pipe: not a regular file", "1 of 1 run rejected"},
        {"report --scaling $T/pipe", 1, NULL, "/pipe: not a regular file"},
        {"train -m tiny --data $T/pipe", 1, NULL, "/pipe: not a regular file"},
        {"exercise gelu_forward --check $T/pipe.c", 1, NULL, "/pipe.c: not a regular file"},
        {"exercise gelu_forward --check $T/pipe.cl", 1, NULL, "/pipe.cl: not a regular file"},
        {"exercise gelu_forward --check $T/pipe.so", 1, NULL, "/pipe.so: not a regular file"},
        {"devices --backend-library $T/pipe.so", 1, NULL, "/pipe.so: not a regular file"});
}

TEST(nobody_reads) {
    CHECK_ALL({"train -m tiny --steps 1 --log $T/pipe", 1, NULL,
               "pipe: cannot be written: a pipe that nobody reads; start its reader first"},
              {"run -m tiny --output-file $T/pipe", 1, NULL, "not a regular file"},
              {"page --output $T/pipe", 1, NULL, "not a regular file"});
}

TEST(what_is_written_is_read) {
    CHECK_ALL(
        {"train -m tiny --steps 2 -b 1 --seq-len 8 --log /dev/fd/3 3>&1 >$T/steps | cat", 0, "\"step\": 2", NULL},
        {"run -m tiny --backend cpu -b 1 --seq-len 8 -r 3 --no-peaks -o jsonl >$T/rows", 0, NULL, NULL},
        {"--version; cat $T/rows | " SM_TEST_BINARY " report --best /dev/stdin", 0, NULL, "1 row: nothing to choose"},
        {"--version; (sleep 0.3; cat $T/rows) | " SM_TEST_BINARY " report --best /dev/stdin", 0, NULL,
         "1 row: nothing to choose"},
        {"run -m tiny --backend cpu -b 1 --seq-len 8 -r 3 --no-peaks --output-file $T/kept.jsonl 2>&- && head -c 2 "
         "$T/kept.jsonl",
         0, "{\"", NULL});
}

AROUND_ALL(make_pipes, temp_folder_remove)
