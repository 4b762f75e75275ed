#!/bin/sh
# check_deps.sh: checks that each folder includes only lower layers, that no folder has too many files, that documents are
# narrow and short, and that every file named in a comment or document exists. An #include has the path from the root,
# or no folder for a header of include/.
set -eu
cd "$(dirname "$0")/.."
failed=0

fail() {
    echo "check-deps: $1" >&2
    failed=1
}

# From the ground up: a folder includes itself and what stands before it. So there are no circles. A folder's name
# stands for the folders within it, too, where these are not named.
floors='include os
    backends/host
    src/io src/data src/processes src/documents src/tokenizer src/text src/plan src/optim src/models src/rewrites src/comm src/session src/verify
    src/weights src/runs src/train
    backends/reference backends/cpu/threads backends/cpu/common backends/cpu backends/cpu/kernels
    backends/cpu/kernels/matmul backends/cpu/kernels/attention
    backends/opencl/program backends/opencl/peers backends/opencl/memory backends/opencl/launch backends/opencl/binders
    backends/opencl/families backends/opencl/nvidia backends/opencl/units backends/opencl
    bench/stats bench/tables bench/rows bench/compare bench/score bench/sensors bench/measure bench/profile bench/loop
    bench/pages bench/report bench/runs bench/curves
    learn/smallest learn/live learn/own_kernels learn/exercise learn/ladder learn/page
    cli/flags cli/output cli/setup cli/rows cli/measure cli/sweep cli/learn cli/train cli/front'

# files PATTERN...: those of the tree that are there.
files() { git ls-files -co --exclude-standard "$@" | while read -r file; do [ ! -e "$file" ] || echo "$file"; done; }

# includes: FILE HEADER for each header that is named by its path.
includes() {
    files 'os/*.[ch]' 'src/*.[ch]' 'bench/*.[ch]' 'learn/*.[ch]' 'cli/*.[ch]' 'backends/*.[ch]' 'include/*.h' |
        xargs grep -oE '^ *#include "[^"]+/[^"]+"' | sed -E 's/: *#include "(.*)"$/ \1/'
}

# What stands between a file and a header that it may not include:
#   - the floors: nothing includes a floor above its own;
#   - backends and what is above include/ know nothing of each other: a backend includes itself, backends/host, os and
#     include/;
#   - bench, learn and the program leave files and checkpoints to src (bench opens text files with input_file.h);
#   - a vendor's folder of the opencl backend is reached through the table of families;
#   - a model's headers are its own.
wrong=$(includes | awk -v floors="$floors" -v layers="program peers memory launch binders families" '
    function floor_of(path) {
        sub("/[^/]*$", "", path)
        while (!(path in rank) && sub("/[^/]*$", "", path)) {}
        return path
    }
    BEGIN { n = split(floors, list); for (i = 1; i <= n; i++) rank[list[i]] = i }
    {
        from = floor_of($1); to = floor_of($2)
        split($1, f, "/"); split($2, t, "/")
        if (!(from in rank)) print $1 ": its folder has no place among the floors"
        else if (!(to in rank)) print $1 " includes " $2 ", whose folder has no place among the floors"
        else if (rank[to] > rank[from]) print $1 " includes " $2 ", which is above it"
        else if (f[1] == "backends" && t[1] != "os" && (t[1] != "backends" || (t[2] != f[2] && t[2] != "host"))) print $1 " includes " $2 ": a backend knows include/ and os/ alone"
        else if (from == "learn/smallest") { if (to != "backends/reference") print $1 " includes " $2 ": it knows include/ and backends/reference alone" }
        else if (f[1] != "backends" && t[1] == "backends") print $1 " includes " $2 ", which is a backend'\''s"
        else if (f[1] == "bench" && (to == "src/io" || to == "src/weights") && $2 !~ /^src\/io\/(input_file|json_text|file_digest|atomic_file)[.]h$/) print $1 " includes " $2 ": bench knows no file of a model"
        else if (t[2] == "opencl" && t[4] != "" && layers !~ t[3] && to != from && $1 != "backends/opencl/families.c") print $1 " includes " $2 ": a vendor'\''s kernels are reached through families.c"
        else if (t[2] == "models" && t[4] != "" && f[3] != t[3]) print $1 " includes " $2 ", which is one model'\''s own"
    }')
[ -z "$wrong" ] || fail "$wrong"

missing=$(includes | while read -r file header; do [ -e "$header" ] || echo "$file includes $header, which does not exist"; done)
[ -z "$missing" ] || fail "$missing"

# Nobody knows a model by name but the list of models (and tests).
for folder in src/models/*/; do
    name=$(basename "$folder")
    if grep -rn "sm_model_$name\b" src bench learn cli backends include --include='*.[ch]' | grep -v "^$folder"; then
        fail "only $folder may name sm_model_$name; all others take it from the list in model.h"
    fi
done

# One kind of regular expression: src/io/pattern.h's.
wrong=$(files '*.[ch]' | xargs grep -l '^ *#include <regex[.]h>' || true)
[ -z "$wrong" ] || fail "$wrong includes <regex.h>: patterns are PCRE2's (src/io/pattern.h)"

# A folder is read at a glance.
crowds=$(files '*.c' '*.h' '*.cl' '*.inc' '*.sh' '*.sbatch' '*.py' '*.js' '*.css' | sed 's#/[^/]*$##' | sort | uniq -c |
    while read -r n folder; do
        [ "$n" -le 20 ] || echo "$folder has $n source files, and 20 are the most"
    done)
[ -z "$crowds" ] || fail "$crowds"

# Systems differ in os/ alone. Lower the number when fewer files elsewhere include POSIX's headers.
posix='unistd|fcntl|poll|dlfcn|spawn|dirent|glob|wordexp|ftw|sched|pthread|libgen|strings|sys/[a-z]+'
n=$(files '[sbcli]*/*.[ch]' | xargs grep -hE "^ *#include <($posix)\.h>" | wc -l)
[ "$n" -le 90 ] || fail "$n includes of POSIX's headers outside of os/, and 90 are the most: ask os/ for it (os/os.h)"

wide=$(files README.md 'docs/*.md' | xargs awk 'length > 120 && !/^\|/ { print FILENAME ":" FNR " has " length " characters, not at most 120" }')
[ -z "$wide" ] || fail "$wide"
n=$(cat docs/*.md | wc -w)
[ "$n" -le 36000 ] || fail "docs/*.md have $n words, and 36000 are the most: say it shorter"

# mentions: FILE: NAME for each name of a source file in a comment or a document. STEM, NAME and the like stand for any.
mentions() {
    sources=$(files '*.c' '*.h' '*.cl' '*.S')
    scripts=$(files '*.sh' '*.py' Makefile)
    documents=$(files '*.md')
    # shellcheck disable=SC2086 # lists of files
    {
        grep -oE '//.*' $sources /dev/null
        grep -oE '(^|[[:space:]])#.*' $scripts /dev/null
        grep -E '' $documents /dev/null
    } | grep -oE '^[^:]*:|(^|[[:space:](`])[A-Za-z0-9_/*]*[A-Za-z0-9_*]\.(c|h|cl|sh|py)([^A-Za-z0-9_]|$)' |
        awk '/:$/ && !/[[:space:](`]/ { file = $0; next } { gsub(/[^A-Za-z0-9_\/*.]/, ""); sub(/\.$/, ""); print file, $0 }' |
        sort -u
}

# llm.c is a project; what is in mine/ is the reader's.
missing=$(mentions | grep -vE ' llm\.c$| mine/|[A-Z]{4}' | while read -r file name; do
    [ -n "$(git ls-files -co --exclude-standard -- ":(glob)**/$name")" ] || echo "$file $name"
done)
[ -z "$missing" ] || fail "these files are named, and do not exist:
$missing"
[ "$failed" = 0 ] && echo "check-deps: every layer includes only what it may"
exit "$failed"
