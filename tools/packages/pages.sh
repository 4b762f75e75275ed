#!/bin/sh
# pages.sh STEPMARK FOLDER: writes the manual pages and completions that the program prints: man/man1/*.1 and
# completions/{bash,zsh,fish}.
set -eu
stepmark=$1
folder=$2
rm -rf "$folder"
mkdir -p "$folder/man/man1" "$folder/completions"
"$stepmark" --manual >"$folder/man/man1/stepmark.1"
sed -n 's/^\.It Xr stepmark-\([^ ]*\) 1$/\1/p' "$folder/man/man1/stepmark.1" | while read -r command; do
    "$stepmark" --manual "$command" >"$folder/man/man1/stepmark-$command.1"
done
for shell in bash zsh fish; do
    "$stepmark" --completion "$shell" >"$folder/completions/$shell"
done
