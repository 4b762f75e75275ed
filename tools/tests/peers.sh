#!/bin/sh
# peers.sh BINARY: tests the programs of bench/peers, and compares stepmark's weights, losses, updates and
# generated text, and what eval says, with those of PyTorch and transformers, and its tokens with those of tokenizers.
set -eu
binary=$1
python=$(tools/peers.sh)
STEPMARK_BINARY=$binary "$python" tests/peers/test_side_by_side.py
"$python" tests/peers/check_optimizers.py
"$python" tests/peers/check_tokenizer.py --stepmark "$binary" --megabytes "${STEPMARK_PEERS_MEGABYTES:-100}"
"$python" tests/peers/check_eval.py --stepmark "$binary"
exec "$python" tests/peers/check_transformers.py --stepmark "$binary"
