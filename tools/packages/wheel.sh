#!/bin/sh
# wheel.sh [MAKE]: build/stepmark-VERSION-py3-none-manylinux_2_28_ARCH.whl: the Python module with the program of
# tools/packages/tarball.sh inside, so that `pip install` needs no compiler. Its tools are in a virtual environment
# outside of the tree (STEPMARK_WHEEL names another folder for it).
set -eu
cd "$(dirname "$0")/../.."
make=${1:-make}
CC=${CC:-gcc} # for another processor: its compiler
export CC
arch=$($CC -dumpmachine | cut -d- -f1)
platform=manylinux_2_28_$arch
STEPMARK_VERSION=$(sed -n '1s/.*(\(.*\)).*/\1/p' debian/changelog)
export STEPMARK_VERSION
venv=${STEPMARK_WHEEL:-${XDG_CACHE_HOME:-$HOME/.cache}/stepmark/wheel}
if ! "$venv/bin/python" -c 'import auditwheel, setuptools, wheel' 2>/dev/null; then
    echo "setting up auditwheel in $venv" >&2
    python3 -m venv "$venv" >&2
    "$venv/bin/pip" install --quiet auditwheel setuptools wheel >&2
fi
tools/packages/tarball.sh "$make"
stage=build/wheel
rm -rf $stage
mkdir -p $stage/out
cp -r python/stepmark python/pyproject.toml python/setup.py $stage
rm -rf $stage/stepmark/__pycache__
install -D "build/portable-$arch/linked/stepmark" $stage/stepmark/bin/stepmark
"$venv/bin/pip" wheel --quiet --no-deps --no-build-isolation --wheel-dir $stage/out $stage
"$venv/bin/python" -m wheel tags --remove --python-tag py3 --abi-tag none --platform-tag "$platform" $stage/out/*.whl >/dev/null
wheel=$(ls $stage/out/*.whl)
"$venv/bin/auditwheel" show "$wheel" | tr -s '\n ' ' ' | grep -qE "consistent with the following platform tag: \"manylinux_2_([0-9]|1[0-9]|2[0-8])_" ||
    { "$venv/bin/auditwheel" show "$wheel" >&2 && exit 1; }
mv "$wheel" build/
echo "build/${wheel##*/}"
