#!/bin/sh
# emulated.sh: every op and whole steps on emulated matrix units of AMD and Intel (tools/vendors/check_emulated.sh).
exec "$(dirname "$0")/../vendors/check_emulated.sh"
