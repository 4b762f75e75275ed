#!/bin/sh
# check.sh [CLANG]: the programs that plans may need of matrix units of AMD and Intel compile by the vendors' own
# compilers (tools/vendors/compilers.sh), without a card; prints a table of registers, spills, local memory, and matrix
# instructions against loads in the loop that has most of them, and keeps it in build/vendors/TARGET/table. Nothing
# spills or has arrays in memory, and loops of products keep to a budget of loads. A compiled program is not compiled
# again: an interrupted run is continued. With CLANG, one that knows AMD's processors (clang-19), it compiles the first
# product and attention for three of them: a few seconds.
#   TARGETS="gfx942 bmg"   which devices; not given: all
#   ONLY=DATA_BF16         compile of the programs those whose options match this expression
# shellcheck disable=SC2086 # lists of flags
. "$(dirname "$0")/../script.sh"
stepmark=${STEPMARK:-build/release/stepmark}
vendors=${1:-}
if [ -z "$vendors" ]; then
    vendors=$(tools/vendors/compilers.sh)
    first=
elif ! "$vendors" --version >/dev/null 2>&1 || [ "$(uname -m)" != x86_64 ]; then
    echo "check-vendors: left out: no $vendors for x86-64"
    exit
else
    TARGETS=${TARGETS:-gfx942 gfx1100 gfx1201}
    first='^(matmul|attention)'
fi
table=$work/table
n=0
failed=0

fail() {
    echo "check-vendors: $*" >&2
    failed=$((failed + 1))
}

# compile TARGET SOURCE "OPTIONS": prints what count_instructions.py does.
compile() {
    case $1:$first in
    gfx*:?*)
        "$vendors" -x cl -target amdgcn-amd-amdhsa -mcpu="$1" -nogpulib -O3 -Xclang -finclude-default-header -w $3 -S -o "$work/out.s" \
            "$2" 2>"$work/log" || return 1
        tools/vendors/count_instructions.py amd "$work/out.s"
        ;;
    gfx*)
        rm -f "$work/out.s"
        "$vendors/comgr" "$1" "$work/out.s" "-O3 $3 -mllvm -amdgpu-prelink -mcode-object-version=5" "$2" 2>"$work/log" || return 1
        tools/vendors/count_instructions.py amd "$work/out.s"
        ;;
    *)
        rm -rf "$work/out" && mkdir "$work/out"
        "$vendors/ocloc" compile -file "$2" -device "$1" -options "$3" -output_no_suffix -output "$work/out/program" >"$work/log" 2>&1 || return 1
        "$vendors/ocloc" disasm -file "$work/out/program.bin" -device "$1" -dump "$work/out/parts" >"$work/log2" 2>&1 || return 1
        tools/vendors/count_instructions.py intel "$work/out/parts"
        ;;
    esac
}

for target in ${TARGETS:-gfx90a gfx942 gfx950 gfx1100 gfx1151 gfx1201 dg2 arl-h pvc bmg lnl-m ptl-h}; do
    folder=build/vendors${first:+/first}/$target
    mkdir -p "$folder" && : >"$table"
    case $target in
    gfx11*) card=gfx1100 ;;
    gfx*) card=$target ;;
    dg2 | arl-h) card=dg2 ;;
    *) card=bmg ;;
    esac
    tools/vendors/emulated.sh "$card" "$stepmark" --helper opencl 0 programs >"$work/programs" || true
    if [ -n "$first" ]; then
        grep -E "$first" "$work/programs" | awk '!seen[$1]++' >"$work/first" && mv "$work/first" "$work/programs"
    fi
    [ -s "$work/programs" ] || fail "$target: no programs"
    while read -r stem options; do
        heads=$([ "$stem" != attention_units ] || echo cl/heads.cl)
        cat cl/philox.cl cl/prelude.cl cl/units/units.cl $heads "cl/units/$stem.cl" >"$work/source.cl"
        counts=$folder/$({ echo "$vendors $options" && cat "$work/source.cl" tools/vendors/count_instructions.py; } | sha256sum | cut -c1-16)
        if [ ! -e "$counts" ]; then
            echo "$stem $options" | grep -qE -e "${ONLY:-.}" || continue
            if ! compile "$target" "$work/source.cl" "-cl-std=CL1.2 -cl-denorms-are-zero -DVECTOR=4 -DROW_ITEMS=128 $options" >"$work/counts"; then
                fail "$target: $stem $options: $(grep -m1 -iE 'error|LLVM' "$work/log")"
                continue
            fi
            mv "$work/counts" "$counts"
        fi
        n=$((n + 1))
        sed "s/^/$target $stem $options | /" "$counts" >>"$table"
    done <"$work/programs"
    # No spills or arrays in memory. CLANG calls functions that it has not: they need a stack, and make attention spill.
    # Products: AMD's 16 matrix instructions to at most 12 loads from local memory on gfx9, block reads 16 to 5.
    awk -F'|' -v first="$first" '
        function value(key, x) { x = $2; if (!sub(".*" key " ", "", x)) return 0; return x + 0 }
        (first == "" && value("spills") + value("scratch") > 0) || (/ matmul_units / && value("spills") > 0) { print $0 " (spills)"; bad++ }
        / matmul_units / && /matmul:/ {
            if ($1 ~ /^gfx9[04]/ && $1 ~ /FM=2 -DFN=2/ && $1 !~ /PRODUCTS=2/ && value("local loads") * 16 > 12 * value("matrix")) { print $0 " (loads)"; bad++ }
            if ($1 ~ /BLOCK_READS/ && value("global loads") * 16 > 5 * value("matrix")) { print $0 " (loads)"; bad++ }
        }
        END { exit bad > 0 }' "$table" >&2 || fail "$target: programs spill, or load more than their budget"
    cat "$table"
    mv "$table" "$folder/table"
done

[ "$failed" = 0 ] || exit 1
echo "check-vendors: $n programs compile, and keep to their budget"
