#!/bin/sh
# check_deps.sh: each folder includes only what is below it: src/cli -> bench -> src -> include <- backends, and
# within bench and src as `floors` says. File names are unique, and a file that a comment or a document names exists.
set -eu
cd "$(dirname "$0")/.."
failed=0

# deny FILES FOLDER...: no file may include a header that lies in these folders, but for $allowed.
allowed=
deny() {
    files=$1
    shift
    [ -n "$files" ] || return 0
    for folder in "$@"; do
        for header in "$folder"/*.h; do
            [ -e "$header" ] || continue
            name=$(basename "$header")
            [ "$name" != "$allowed" ] || continue
            # shellcheck disable=SC2086 # a list of files
            if grep -n "#include \"$name\"" $files /dev/null; then
                echo "check-deps: $name belongs to $folder, which these may not include" >&2
                failed=1
            fi
        done
    done
}

list() { find "$@" -name '*.[ch]' | sort | tr '\n' ' '; }

# From the ground up: a folder includes itself and what stands before it. So there are no circles.
floors='include src/io src/data src/tokenizer src/plan src/optim src/models src/rewrites src/comm src/session src/verify src/checkpoint src/train'
floors="$floors bench/stats bench/records bench/rows bench/compare bench/measure bench/processes bench/kernels bench/exercise bench/ladder bench/report bench/page bench/training src/cli"
backends='backends/host backends/reference backends/cpu backends/opencl'

above=$floors
for folder in $floors; do
    above=${above#*"$folder"}
    # shellcheck disable=SC2086 # a list of folders
    deny "$(list "$folder")" $above $backends
done
# shellcheck disable=SC2086 # likewise
deny "$(list backends)" ${floors#include}
allowed=input_file.h # bench opens its own files as the rest does, and knows no file of a model
deny "$(list bench)" src/io src/checkpoint
allowed=
for folder in src/*/ bench/*/; do
    case " $floors bench/peers " in
    *" ${folder%/} "*) ;;
    *)
        echo "check-deps: $folder has no place among the floors" >&2
        failed=1
        ;;
    esac
done

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

# llm.c is a project; what is in mine/ is the reader's.
missing=$(mentions | grep -vE ' llm\.c$| mine/|[A-Z]{4}' | while read -r file name; do
    [ -n "$(git ls-files -co --exclude-standard -- ":(glob)**/$name")" ] || echo "$file $name"
done)
if [ -n "$missing" ]; then
    echo "check-deps: these files are named, and do not exist:" >&2
    echo "$missing" >&2
    failed=1
fi
[ "$failed" = 0 ] && echo "check-deps: every layer includes only what it may"
exit "$failed"
