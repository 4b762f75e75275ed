#!/bin/sh
# check_deps.sh: each layer includes only what is to its right:
#     src/cli -> bench -> src -> include <- backends
# and only backends/cpu includes <cblas.h>. File names are unique, and a file that a comment or a document names exists.
set -eu
cd "$(dirname "$0")/.."
failed=0

# deny FOLDER-FILES WHAT...: no file may include a header that lies in these folders.
deny() {
    files=$1
    shift
    for folder in "$@"; do
        for header in "$folder"/*.h; do
            [ -e "$header" ] || continue
            name=$(basename "$header")
            # shellcheck disable=SC2086 # a list of files
            if grep -n "#include \"$name\"" $files /dev/null; then
                echo "check-deps: $name belongs to $folder, which these may not include" >&2
                failed=1
            fi
        done
    done
}

list() { find "$@" -name '*.[ch]' | sort | tr '\n' ' '; }

deny "$(list include)" src src/optim src/models src/models/gpt2 src/io src/cli bench backends/host backends/reference backends/cpu backends/opencl
deny "$(list src -maxdepth 1) $(list src/optim src/models src/io)" src/cli bench backends/host backends/reference backends/cpu backends/opencl
deny "$(list bench)" src/cli backends/host backends/reference backends/cpu backends/opencl
deny "$(list src/cli)" backends/host backends/reference backends/cpu backends/opencl
deny "$(list backends)" src src/optim src/models src/models/gpt2 src/io src/cli bench
deny "$(list bench)" src/io

# only FOLDER HEADER: nobody else includes it.
only() {
    if grep -rn "#include <$2>" --include='*.[ch]' . | grep -v "^./$1/" | grep -v -e '^./build/' -e '^./tests/shims/'; then
        echo "check-deps: only $1 may include <$2>" >&2
        failed=1
    fi
}
only backends/cpu cblas.h
only backends/cpu dnnl.h
only backends/opencl CL/cl.h

# A model's headers are its own, and nobody knows one by name but the list of models (and tests).
for folder in src/models/*/; do
    name=$(basename "$folder")
    deny "$(find src bench backends include -name '*.[ch]' -not -path "$folder*" | tr '\n' ' ')" "${folder%/}"
    if grep -rn "sm_model_$name\b" src bench backends include --include='*.[ch]' | grep -v "^$folder"; then
        echo "check-deps: only $folder may name sm_model_$name; all others take it from the list in model.h" >&2
        failed=1
    fi
done

repeated=$(git ls-files '*.c' '*.h' | xargs -n1 basename | sort | uniq -d)
if [ -n "$repeated" ]; then
    echo "check-deps: file names must be unique: $repeated" >&2
    failed=1
fi
# mentions: FILE: NAME for each name of a source file in a comment or a document. STEM, NAME and the like stand for any.
mentions() {
    sources=$(git ls-files -co --exclude-standard '*.c' '*.h' '*.cl' '*.S')
    scripts=$(git ls-files -co --exclude-standard '*.sh' '*.py' Makefile)
    documents=$(git ls-files -co --exclude-standard '*.md')
    # shellcheck disable=SC2086 # lists of files
    {
        grep -oE '//.*' $sources /dev/null
        grep -oE '(^|[[:space:]])#.*' $scripts /dev/null
        grep -E '' $documents /dev/null
    } | grep -oE '^[^:]*:|(^|[[:space:](`])[A-Za-z0-9_/*]*[A-Za-z0-9_*]\.(c|h|cl|sh|py)([^A-Za-z0-9_]|$)' |
        awk '/:$/ && !/[[:space:](`]/ { file = $0; next } { gsub(/[^A-Za-z0-9_\/*.]/, ""); sub(/\.$/, ""); print file, $0 }' |
        sort -u
}

# llm.c is a project.
missing=$(mentions | grep -vE ' llm\.c$|[A-Z]{4}' | while read -r file name; do
    [ -n "$(git ls-files -co --exclude-standard -- ":(glob)**/$name")" ] || echo "$file $name"
done)
if [ -n "$missing" ]; then
    echo "check-deps: these files are named, and do not exist:" >&2
    echo "$missing" >&2
    failed=1
fi
[ "$failed" = 0 ] && echo "check-deps: every layer includes only what it may"
exit "$failed"
