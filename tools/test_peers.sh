#!/bin/sh
# test_peers.sh BINARY: tests the programs of bench/peers, and holds stepmark's weights, losses and updates
# to those of PyTorch and transformers.
set -eu
binary=$1
python=$(tools/peers.sh)
STEPMARK_BINARY=$binary "$python" tests/peers/test_side_by_side.py
"$python" tests/peers/check_optimizers.py
exec "$python" tests/peers/check_transformers.py --stepmark "$binary"
