#!/bin/sh
# test_peers.sh BINARY: sets up PyTorch and transformers in a virtual environment outside the tree, and holds
# stepmark's weights, losses and updates to theirs.
set -eu
binary=$1
venv=${STEPMARK_PEERS:-${XDG_CACHE_HOME:-$HOME/.cache}/stepmark/peers}
if ! "$venv/bin/python" -c 'import numpy, safetensors, torch, transformers' 2>/dev/null; then
    echo "setting up PyTorch and transformers in $venv" >&2
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet -r tests/golden/requirements.txt
fi
exec "$venv/bin/python" tests/peers/check_transformers.py --stepmark "$binary"
