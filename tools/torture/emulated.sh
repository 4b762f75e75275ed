#!/bin/sh
# emulated.sh: every op and whole steps on emulated matrix units of AMD and Intel (tools/check_emulated.sh).
exec "$(dirname "$0")/../check_emulated.sh"
