#!/bin/sh
# zig.sh: prints the command that is Zig's compiler, which it sets up in a virtual environment outside of the tree
# (STEPMARK_ZIG names another folder for it) when it is not there yet.
. "$(dirname "$0")/../script.sh"
folder=${STEPMARK_ZIG:-${XDG_CACHE_HOME:-$HOME/.cache}/stepmark/zig}
venv "$folder" ziglang ziglang==0.13.0
echo "env ZIG_GLOBAL_CACHE_DIR=$folder/cache ZIG_LOCAL_CACHE_DIR=$folder/cache $folder/bin/python -m ziglang"
