#!/bin/sh
# clang_syntax.sh: lets clang look for warnings in all sources and tests, without making code. It takes the files that
# have the same flags in one process: half of the time for one file is clang's start. make says what the flags are.
. "$(dirname "$0")/script.sh"
make -s CONFIG=clang build/clang/ladder_rungs.list
make -n CONFIG=clang objects |
    sed -n '/^clang /{s/ -MMD -MP//;s/ -shared//;s/ -c / /;s/ -o [^ ]*//;s/ -ldl$//;s/^\(.*\) \([^ ]*\.c\)$/\2 \1/p;}' |
    awk -v work="$work" '{
        file = $1
        sub(/^[^ ]* /, "")
        if (!($0 in number)) {
            number[$0] = ++n
            print > (work "/" n ".flags")
        }
        print file > (work "/" number[$0] ".files")
    }'
for flags in "$work"/*.flags; do
    files=${flags%.flags}.files
    # The driver prints the compiler's own command, whose last word is the file. It keeps what it allocates, so it gets
    # two dozen files at a time.
    compiler=$(eval "$(cat "$flags") -### $(head -n 1 "$files")" 2>&1 |
        sed -n 's/^ \("[^"]*" "-cc1".*\) "[^"]*"$/\1/p')
    # The header of AVX's intrinsics takes longer than most kernels: once for each instruction set.
    if grep -q -e -mavx "$flags" && [ "$(wc -l <"$files")" -gt 2 ]; then
        echo '#include <immintrin.h>' >"$work/immintrin.h"
        eval "$(sed 's/-fsyntax-only//' "$flags") -x c-header -o $work/immintrin.pch $work/immintrin.h"
        compiler="$compiler -include-pch $work/immintrin.pch"
    fi
    xargs -P 2 -n 24 sh -c "$compiler \"\$@\"" clang <"$files"
done
echo "clang-syntax: no warning in $(cat "$work"/*.files | wc -l) files"
