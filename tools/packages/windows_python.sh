#!/bin/sh
# windows_python.sh FOLDER: makes Windows' own Python there, of this machine's version, for wine to run: FOLDER/python.exe,
# and FOLDER/pip.whl. The interpreter and its modules in C lie in PyPI's panda3d (for programs that it packs), the modules in
# Python are this machine's; mingw-w64 compiles the program that starts it.
set -eu
folder=$1
python=$(python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
dll=python$(echo "$python" | tr -d .).dll
mkdir -p "$folder/packages" "$folder/DLLs"
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" download --quiet --no-deps --only-binary :all: --platform win_amd64 --python-version "$python" \
    --dest "$folder/packages" panda3d==1.10.16 pip
mv "$folder"/packages/pip-*.whl "$folder/pip.whl"
"$folder/venv/bin/python" - "$folder" "$folder"/packages/panda3d-*.whl "$dll" <<'END'
import pathlib, sys, sysconfig, shutil, zipfile
folder = pathlib.Path(sys.argv[1])
for name in (packed := zipfile.ZipFile(sys.argv[2])).namelist():
    base = pathlib.PurePath(name).name
    if name.startswith("deploy_libs/") and not base.startswith(("api-ms-", "tcl", "tk")):
        target = folder if base in (sys.argv[3], "VCRUNTIME140.dll") else folder / "DLLs"
        (target / base).write_bytes(packed.read(name))
shutil.copytree(sysconfig.get_path("stdlib"), folder / "Lib",
                ignore=shutil.ignore_patterns("__pycache__", "lib-dynload", "config-*", "test", "dist-packages", "site-packages", "EXTERNALLY-MANAGED"))
END
rm -rf "$folder/packages" "$folder/venv"
cat >"$folder/python.c" <<END
#include <windows.h>
int wmain(int n, wchar_t **words) {
    HMODULE python = LoadLibraryW(L"$dll");
    int (*begin)(int, wchar_t **) = python != NULL ? (void *)GetProcAddress(python, "Py_Main") : NULL;
    return begin != NULL ? begin(n, words) : 9;
}
END
x86_64-w64-mingw32-gcc -municode -o "$folder/python.exe" "$folder/python.c"
