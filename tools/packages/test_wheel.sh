#!/bin/sh
# test_wheel.sh WHEEL: installs the wheel in a fresh virtual environment, from the file alone, and uses both: the command and
# the module. A wheel for another processor: as pip unpacks it there, run by QEMU where that is registered.
set -eu
wheel=$(realpath "$1")
tests=$(realpath "$(dirname "$0")/../../tests/program/test_python.py")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
elsewhere=
command=$folder/venv/bin/stepmark
case $wheel in
*_"$(uname -m)".whl) ;;
*)
    platform=${wheel##*-none-}
    packages=$("$folder/venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    elsewhere="--platform ${platform%.whl} --only-binary=:all: --target $packages"
    command=$packages/bin/stepmark
    ;;
esac
# shellcheck disable=SC2086 # flags
"$folder/venv/bin/pip" install --quiet --no-index --no-deps $elsewhere "$wheel"
cd "$folder"
[ "$("$command" --version)" = "$(venv/bin/python -m stepmark --version)" ]
"$command" run -m tiny -b 1 --seq-len 16 -r 2 --no-peaks --backend cpu -o jsonl | grep -q '"status": "ok"'
venv/bin/python -c 'import stepmark; assert stepmark.find_program().startswith(stepmark.__path__[0]); print(stepmark.version())'
venv/bin/python "$tests" "$("$folder/venv/bin/python" -c 'import stepmark; print(stepmark.find_program())')"
echo "${wheel##*/}: installed and used in a fresh environment"
