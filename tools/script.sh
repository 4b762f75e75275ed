# shellcheck shell=sh
# script.sh: sourced first by scripts with a folder of their own, $work, which goes when they end. The current folder is
# the root, a command that fails ends the script, and fail WHY... says why.
set -eu
cd "$(dirname "$0")"
until [ -e tools/script.sh ]; do cd ..; done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "$(basename "$0" .sh): $*" >&2 && exit 1; }

# venv FOLDER "MODULE, ..." PACKAGE...: makes a virtual environment outside of the tree, unless it has these modules.
venv() {
    "$1/bin/python" -c "import $2" 2>/dev/null && return
    echo "setting up $2 in $1" >&2
    python3 -m venv "$1" >&2
    (folder=$1 && shift 2 && "$folder/bin/pip" install --quiet "$@" >&2)
}
