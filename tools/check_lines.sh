#!/bin/sh
# check_lines.sh [BASE]: prints the lines of each room, the difference from BASE (the commit where this branch left main,
# or main's upstream), and the budget in tools/lines.budget; fails where a room has more lines than its budget.
set -eu
cd "$(dirname "$0")/.."
base=${1:-$(git merge-base HEAD main 2>/dev/null || git rev-parse HEAD)}
if [ "$base" = "$(git rev-parse HEAD)" ]; then
    base=$(git merge-base HEAD '@{upstream}' 2>/dev/null || echo "$base")
fi

# lines WHEN ROOM: of the files of text that git tracks, or that wait to be added (--untracked), or of a commit.
lines() { git grep -Ih -e '' "$1" -- "$2" | wc -l; }

all_now=0 all_then=0 failed=0
printf '%-10s %8s %8s %8s\n' room lines change budget
while read -r room budget; do
    case $room in
    '#' | '') continue ;;
    all) now=$all_now then=$all_then ;;
    *)
        now=$(lines --untracked "$room") then=$(lines "$base" "$room")
        all_now=$((all_now + now)) all_then=$((all_then + then))
        ;;
    esac
    printf '%-10s %8d %+8d %8d\n' "$room" "$now" $((now - then)) "$budget"
    if [ "$now" -gt "$budget" ]; then
        echo "check-lines: $room has $now lines, and its budget in tools/lines.budget is $budget: remove lines, or raise it in a commit that says why" >&2
        failed=1
    fi
done <<LIST
$(grep -v '^#' tools/lines.budget)
LIST
[ "$failed" = 0 ] && echo "check-lines: every room keeps to its budget ($((all_now)) lines with tests)"
exit "$failed"
