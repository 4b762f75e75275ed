#!/bin/sh
# wheel.sh [MAKE]: build/stepmark-VERSION-py3-none-PLATFORM.whl: the Python module with the program of
# tools/packages/archive.sh inside, so that `pip install` needs no compiler. Its tools are in a virtual environment
# outside of the tree (STEPMARK_WHEEL names another folder for it).
. "$(dirname "$0")/../script.sh"
make=${1:-make}
. tools/packages/target.sh
[ $system != macos ] || version=$version+never.run
export STEPMARK_VERSION="$version"
venv=${STEPMARK_WHEEL:-${XDG_CACHE_HOME:-$HOME/.cache}/stepmark/wheel}
venv "$venv" "auditwheel, setuptools, wheel" auditwheel setuptools wheel
tools/packages/archive.sh "$make"
stage=build/wheel-$system-$arch
rm -rf "$stage"
mkdir -p "$stage/out"
cp -r python/stepmark python/pyproject.toml python/setup.py "$stage"
rm -rf "$stage/stepmark/__pycache__"
install -D "$linked/stepmark$exe" "$stage/stepmark/bin/stepmark$exe"
chmod -R u=rwX,go=rX "$stage"
"$venv/bin/pip" wheel --quiet --no-deps --no-build-isolation --wheel-dir "$stage/out" "$stage"
"$venv/bin/python" -m wheel tags --remove --python-tag py3 --abi-tag none --platform-tag "$platform" "$stage"/out/*.whl >/dev/null
wheel=$(ls "$stage"/out/*.whl)
[ $system != linux ] ||
    "$venv/bin/auditwheel" show "$wheel" | tr -s '\n ' ' ' | grep -qE "consistent with the following platform tag: \"manylinux_2_([0-9]|1[0-9]|2[0-8])_" ||
    { "$venv/bin/auditwheel" show "$wheel" >&2 && exit 1; }
mv "$wheel" build/
tools/packages/test_wheel.sh "build/${wheel##*/}" >&2
echo "build/${wheel##*/}"
