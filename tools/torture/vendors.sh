#!/bin/sh
# vendors.sh: the kernels of matrix units by AMD's and Intel's own compilers (tools/vendors/check.sh): all programs on
# all targets; and the static model of cards (tools/vendors/model_cards.py), which is held to what was measured on one.
set -eu
cd "$(dirname "$0")/../.."
tools/vendors/model_cards.py "${STEPMARK:-build/release/stepmark}"
exec tools/vendors/check.sh
