# own_kernels.sh: a part of tools/tests/windows.sh: kernels of one's own, in a process apart: right, wrong, ended, hanging;
# by a library, and by a compiler in PATH, which here hands its words to Linux's, and is not taken from the current folder.
check 'write its body' exercise gelu_forward --init own
# own FILE LINE: a file of C with that line before the loop.
own() {
    sed "s|    // Your code.|    $2\n    for (int64_t i = args->thread; i < n; i += args->n_threads) {\n\
        y[i] = 0.5F * x[i] * (1 + tanhf(0.7978845608F * (x[i] + 0.044715F * x[i] * x[i] * x[i])));\n    }|" \
        own/gelu_forward.c >"$1"
}
run_own() {
    pattern=$1
    shift
    check "$pattern" run -m tiny -b 1 --seq-len 8 --mode naive --attention flash --no-peaks --backend cpu -o jsonl "$@"
}
mkdir bin
cat >bin/gcc-linux <<'END'
#!/bin/sh
for word; do
    case $word in [A-Za-z]:*) word=$(winepath -u "$word") ;; esac
    shift
    set -- "$@" "$word"
done
x86_64-w64-mingw32-gcc "$@"
echo $? >"$0.new"
mv "$0.new" "$0.status"
END
chmod +x bin/gcc-linux
x86_64-w64-mingw32-gcc -w -o bin/gcc.exe "$tree/tests/windows/gcc.c"
cp bin/gcc.exe .
own own.c ''
run_own "own.c: the compiler 'gcc' cannot be started; install it" --kernel gelu_forward=own.c
export WINEPATH="$(winepath -w "$folder/bin")"
run_own '"status": "ok".*"own_kernels": "gelu_forward=own.c .*"warnings": ."own code ran in' --kernel gelu_forward=own.c
check ' 0 failed' verify --backend cpu --filter gelu_forward --kernel gelu_forward=own.c
sed -i 's|^    }$|        ((float *)x)[i] = 0;\n    }|' own.c # its inputs are copies
run_own '"status": "ok"' --kernel gelu_forward=own.c
sed -i 's|0.5F|0.51F|' own.c
run_own '"status": "error".*wrong (result|gradient)' --kernel gelu_forward=own.c
check '\| gelu_forward .* failed \| y' verify --backend cpu --filter gelu_forward --kernel gelu_forward=own.c
own own.c 'for (volatile int turns = 1; turns != 0;) {}'
run_own '"status": "timeout"' --timeout 5 --kernel gelu_forward=own.c
own own.c 'extern void exit(int); exit(3);'
x86_64-w64-mingw32-gcc -O2 -w -shared -o own.dll own.c
run_own 'own code ended its process, with exit code 3' --kernel gelu_forward=own.dll
unset WINEPATH
check 'judged in a process that is forked' exercise gelu_forward --check own.dll
check 'cannot call this program' run -m tiny --backend-library own.dll
