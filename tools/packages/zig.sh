#!/bin/sh
# zig.sh: prints the command that is Zig's compiler, which it sets up in a virtual environment outside of the tree
# (STEPMARK_ZIG names another folder for it) when it is not there yet.
set -eu
venv=${STEPMARK_ZIG:-${XDG_CACHE_HOME:-$HOME/.cache}/stepmark/zig}
if ! "$venv/bin/python" -m ziglang version >/dev/null 2>&1; then
    echo "setting up Zig in $venv" >&2
    python3 -m venv "$venv" >&2
    "$venv/bin/pip" install --quiet ziglang==0.13.0 >&2
fi
echo "env ZIG_GLOBAL_CACHE_DIR=$venv/cache ZIG_LOCAL_CACHE_DIR=$venv/cache $venv/bin/python -m ziglang"
