#!/bin/sh
# test_wheel.sh WHEEL: installs the wheel in a fresh virtual environment, from the file alone, and uses both: the command and
# the module. A wheel for another processor: as pip unpacks it there, run by QEMU where that is registered. One for Windows:
# in Windows' Python, under wine. One for macOS, and any if CONTENTS is set: its contents alone.
set -eu
wheel=$(realpath "$1")
here=$(realpath "$(dirname "$0")")
folder=$(mktemp -d)
end() {
    [ -z "${WINEPREFIX:-}" ] || wineserver -k 2>/dev/null || true # of this prefix
    rm -rf "$folder"
}
trap end EXIT

# For pip each file is in RECORD with its hash and size. The program is there, and may be executed.
python3 - "$wheel" <<'END'
import base64, csv, hashlib, io, sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as wheel:
    [record] = [name for name in wheel.namelist() if name.endswith(".dist-info/RECORD")]
    rows = {row[0]: row[1:] for row in csv.reader(io.TextIOWrapper(wheel.open(record)))}
    assert sorted(rows) == sorted(wheel.namelist())
    for name, (digest, size) in rows.items():
        data = wheel.read(name)
        expected = "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
        assert name == record or (digest, int(size)) == (expected, len(data)), name
    tag = "-".join(sys.argv[1].removesuffix(".whl").split("-")[-3:])
    assert f"\nTag: {tag}\n" in wheel.read(record.replace("RECORD", "WHEEL")).decode()
    assert "stepmark = stepmark.__main__:main" in wheel.read(record.replace("RECORD", "entry_points.txt")).decode()
    [program] = [wheel.getinfo(name) for name in rows if name.startswith("stepmark/bin/")]
    assert program.filename == "stepmark/bin/stepmark" + (".exe" if "win_" in tag else "") and program.external_attr >> 16 & 0o111
END

python=$folder/venv/bin/python
pip="-m pip"
elsewhere=
case ${CONTENTS:-}$wheel in
contents* | *macosx*)
    echo "${wheel##*/}: its contents are right"
    exit 0
    ;;
*win_amd64*)
    export WINEPREFIX="$folder/prefix" WINEDEBUG=-all
    wine wineboot --init >/dev/null 2>&1 || true
    "$here/windows_python.sh" "$folder/python"
    python="wine $folder/python/python.exe"
    pip=$folder/python/pip.whl/pip
    command="wine $folder/python/Scripts/stepmark.exe"
    ;;
*)
    python3 -m venv "$folder/venv"
    command=$folder/venv/bin/stepmark
    case $wheel in
    *_"$(uname -m)".whl) ;;
    *)
        platform=${wheel##*-none-}
        packages=$($python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
        elsewhere="--platform ${platform%.whl} --only-binary=:all: --target $packages"
        command=$packages/bin/stepmark
        ;;
    esac
    ;;
esac
cd "$folder"
# piped COMMAND...: Windows' Python writes to pipes alone under wine.
piped() {
    { "$@" </dev/null 2>&1 && : >"$folder/passed"; } | cat
    rm "$folder/passed" 2>/dev/null
}
# in_python WORD...
# shellcheck disable=SC2086 # a command and its words
in_python() { piped $python "$@"; }
# shellcheck disable=SC2086 # flags
in_python $pip install --quiet --no-warn-script-location --no-index --no-deps $elsewhere "$wheel"
# shellcheck disable=SC2086 # a command and its words
[ "$(piped $command --version)" = "$(in_python -m stepmark --version)" ]
# shellcheck disable=SC2086 # the same
piped $command run -m tiny -b 1 --seq-len 16 -r 2 --no-peaks --backend cpu -o jsonl | grep -q '"status": "ok"'
in_python -c 'import stepmark; assert stepmark.find_program().startswith(stepmark.__path__[0]); print(stepmark.version())'
case $wheel in
*win_amd64*)
    in_python -c 'import stepmark; assert len(stepmark.run("tiny", batch=[1, 2], seq_len=16, backend="cpu", no_peaks=True).ok) == 2'
    ;;
*)
    in_python "$here/../../tests/program/test_python.py" "$(in_python -c 'import stepmark; print(stepmark.find_program())')"
    ;;
esac
echo "${wheel##*/}: installed and used in a fresh environment"
