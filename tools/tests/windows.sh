#!/bin/sh
# windows.sh [STEPMARK.EXE]: the program for Windows under wine, in a prefix of its own: facts, checks, steps on the
# processor and on PoCL through wine's OpenCL.dll, a training that is killed and resumed, a page; in a folder with blanks
# and umlauts, at the end of a long path, on a full disk (as root), and over a file that another program holds. Builds it if
# it is not given.
. "$(dirname "$0")/../script.sh"
if ! command -v wine >/dev/null 2>&1 || ! command -v x86_64-w64-mingw32-gcc >/dev/null 2>&1; then
    echo "windows: skipped: wine or mingw-w64 is not installed (tools/libraries.sh installs both)"
    exit 0
fi
if [ $# -eq 0 ]; then
    make CONFIG=dev CC=x86_64-w64-mingw32-gcc build
    set -- build/dev-windows/stepmark.exe
fi
tree=$PWD
program=$(realpath "$1")
base=$work
export WINEPREFIX="$base/prefix" WINEDEBUG=-all
folder="$base/Mein Ördner ü"
mkdir -p "$folder"
wine wineboot --init >/dev/null 2>&1 || true
end() {
    wineserver -k 2>/dev/null || true # of this prefix
    umount "$base/full" 2>/dev/null || true
    rm -rf "$base"
}
trap end EXIT
cd "$folder"
n=0
# check PATTERN WORD...: the program's output has the pattern.
check() {
    n=$((n + 1))
    pattern=$1
    shift
    wine "$program" "$@" >out.txt 2>&1 || true
    grep -qE "$pattern" out.txt || { echo "windows: failed: stepmark.exe $*" >&2 && cat out.txt >&2 && exit 1; }
}
check 'OpenCL: yes' --version
check '^\| cpu ' devices
for backend in reference cpu opencl; do
    check 'ok, few samples|\| ok' run -m tiny -b 1 --seq-len 8 -r 2 -w 0 --no-peaks --backend $backend
done
# A child measures: one that hangs leaves a row.
check '"status": "timeout"' run -m 124M -b 1 --seq-len 64 --no-peaks --backend reference --timeout 3 -o jsonl
# After Ctrl-C the rows measured so far are there, and the one that was cut short says so.
wine "$program" run -m tiny -b 1,2 --seq-len 64 -r 100000 -w 0 --no-peaks --backend cpu -o jsonl >cut.jsonl 2>said.txt &
pid=$!
for _ in $(seq 600); do
    ! grep -q 'B=1 T=64' said.txt || break
    sleep 0.1
done
sleep 4
kill -INT $pid
wait $pid || true
grep -q 'interrupted at measuring [0-9]* of 100000' cut.jsonl ||
    { echo "windows: failed: Ctrl-C" >&2 && cat cut.jsonl said.txt >&2 && exit 1; }
export PMI_SIZE=2 PMI_RANK=0 PMI_SMPD_ID=0 # as Microsoft MPI does
check 'run measures with one process, and this is one of 2' run -m tiny
check 'this is one of 2 processes .PMI_SIZE., and this build is without MPI' train -m tiny
unset PMI_SIZE PMI_RANK PMI_SMPD_ID
. "$tree/tests/windows/own_kernels.sh"
check ' 0 failed' verify --backend cpu --filter '^[^s]|^s[^t]' --max-elems 2000 --precision fp32,bf16,fp16
check ' 0 failed' verify --backend opencl --filter gelu --max-elems 2000
check 'saved after step 4' train -m tiny -b 2 --seq-len 16 --steps 4 --save 'Mödell 1'
check 'saved after step 4' train -m tiny -b 2 --seq-len 16 --steps 4 --save 'Mödell 1' # over the old one
long=$(printf 'ein langer Ördner %.0s' 1 2 3 4 5).
deep=${long%.}1/${long%.}2/${long%.}3/m # of more than 260 letters
mkdir -p "${deep%/m}"
check 'saved after step 2' train -m tiny -b 2 --seq-len 16 --steps 2 --save "$deep"
check 'saved after step 4' train --weights "$deep" -b 2 --seq-len 16 --steps 2 --save "$deep"

# A full disk leaves nothing half-written.
mkdir "$base/full"
if mount -t tmpfs -o size=100k tmpfs "$base/full" 2>/dev/null; then
    ln -s "$base/full" "$WINEPREFIX/dosdevices/f:"
    check 'F:/m.*: cannot write: No space left on device' train -m tiny -b 2 --seq-len 16 --steps 2 --save F:/m
    [ -z "$(ls -A "$base/full")" ] || { echo "windows: left on a full disk: $(ls -A "$base/full")" >&2 && exit 1; }
fi

# A file that another program, such as a virus scanner, holds most of the time, a second at a time.
cat >hold.c <<END
#include <windows.h>
int wmain(int n, wchar_t **words) {
    for (;;) {
        HANDLE file = CreateFileW(words[n - 1], GENERIC_READ, 0, NULL, OPEN_EXISTING, 0, NULL);
        Sleep(1000);
        CloseHandle(file);
        Sleep(100);
    }
}
END
x86_64-w64-mingw32-gcc -municode -o hold.exe hold.c
wine hold.exe 'Mödell 1/model.safetensors' </dev/null >/dev/null 2>&1 &
pid=$!
for _ in 1 2 3; do
    check 'saved after step 2' train -m tiny -b 2 --seq-len 16 --steps 2 --save 'Mödell 1'
done
kill -9 $pid 2>/dev/null || true
wait $pid 2>/dev/null || true

# OpenBLAS: where there is none, one line says so; a file of that name in the current folder is not opened.
: >libopenblas.dll
check 'libopenblas.dll is neither next to the program nor in PATH' run -m tiny --products openblas --backend cpu
check 'step 82|^step' walk -m tiny
check '' page --output 'Seite.html'
grep -q '</html>' 'Seite.html'

# The same weights whether it is killed or not.
train() { wine "$program" train -m tiny -b 2 --seq-len 16 --steps 12 --save-every 2 --run "$@" >out.txt 2>&1; }
train whole || { cat out.txt >&2 && exit 1; }
wine "$program" train -m tiny -b 2 --seq-len 16 --steps 12 --save-every 2 --run cut >out.txt 2>&1 &
pid=$!
for _ in $(seq 200); do
    [ -d cut/checkpoints/step-4 ] && break
    sleep 0.05
done
kill -9 $pid 2>/dev/null || true
wait $pid 2>/dev/null || true
grep -q RUN_COMPLETE.txt out.txt || [ -f cut/RUN_COMPLETE.txt ] || train cut --resume auto || { cat out.txt >&2 && exit 1; }
cmp whole/model/model.safetensors cut/model/model.safetensors
echo "windows: $((n + 2)) runs passed under $(wine --version)"
