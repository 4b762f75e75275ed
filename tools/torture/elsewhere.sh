#!/bin/sh
# elsewhere.sh: the program for Windows under wine; `make check` as on a Unix that is not Linux (OS=posix), and in other
# releases of Debian and for other processors (tools/elsewhere.sh), as root, with every version of clang that they have.
#   CELLS="trixie:amd64 bookworm:arm64"   which
set -eu
cd "$(dirname "$0")/../.."
failed=
env -u MAKEFLAGS -u MAKELEVEL make OS=posix check || failed=" posix"
env -u MAKEFLAGS -u MAKELEVEL tools/tests/windows.sh || failed="$failed windows"
if [ "$(id -u)" != 0 ]; then
    echo "elsewhere: only root can install other releases of Debian: left out"
    CELLS=" "
fi
for cell in ${CELLS:-bookworm:amd64 trixie:amd64 sid:amd64 bookworm:arm64 trixie:arm64 sid:arm64 trixie:riscv64}; do
    case $cell in
    *:amd64) env -u MAKEFLAGS -u MAKELEVEL tools/elsewhere.sh "${cell%:*}" amd64 all-clang || failed="$failed $cell" ;;
    *) env -u MAKEFLAGS -u MAKELEVEL tools/elsewhere.sh "${cell%:*}" "${cell#*:}" || failed="$failed $cell" ;;
    esac
done
[ -z "$failed" ] || echo "elsewhere: failed:$failed"
[ -z "$failed" ] && echo "elsewhere: all passed"
