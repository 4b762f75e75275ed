#!/bin/sh
# torture_vendors.sh: the kernels of matrix units by AMD's and Intel's own compilers (tools/check_vendors.sh): all programs
# on all targets.
exec "$(dirname "$0")/check_vendors.sh"
