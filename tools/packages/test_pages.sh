#!/bin/sh
# test_pages.sh STEPMARK FOLDER: checks that manual pages pass mandoc -Tlint and name every flag, and that real
# shells complete subcommands, flags, words and lists. tools/packages/pages.sh made FOLDER.
. "$(dirname "$0")/../script.sh"
stepmark=$(realpath "$1")
PATH=$(dirname "$stepmark"):$PATH
folder=$(realpath "$2")
failed=0

fail() {
    printf 'test-pages: %s\n' "$1" >&2
    failed=1
}

# --- manual pages ---

# mandoc looks for references among the installed pages; here they are looked for among these.
lint() {
    mandoc -Tlint "$1" >"$work/lint" 2>&1 || true
    sed -n 's/.*referenced manual not found: Xr \([^ ]*\) 1$/\1/p' "$work/lint" | while read -r name; do
        [ -f "$folder/man/man1/$name.1" ] || echo "refers to $name, which there is not"
    done
    grep -v 'referenced manual not found' "$work/lint" || true
}

n_pages=0
for page in "$folder"/man/man1/*.1; do
    said=$(lint "$page")
    [ -z "$said" ] || fail "$page: $said"
    n_pages=$((n_pages + 1))
done

# Every flag of --help is in the page, as man shows it.
commands=$(ls "$folder/man/man1" | sed -n 's/^stepmark-\(.*\)\.1$/\1/p')
for command in $commands; do
    mandoc -Tascii -O width=200 "$folder/man/man1/stepmark-$command.1" | sed 's/.\x08//g' >"$work/page"
    "$stepmark" "$command" --help | grep -oE '^(  -[a-z], |      )--[a-z0-9-]+' | grep -oE -- '--[a-z0-9-]+' | while read -r flag; do
        grep -q -- "^ *\(-., \)\?$flag\( \|\$\)" "$work/page" || echo "$command: $flag"
    done
done >"$work/lacking"
[ ! -s "$work/lacking" ] || fail "flags that the pages lack: $(tr '\n' ' ' <"$work/lacking")"

# --- completions ---

# What a shell makes of a line whose last word is being typed, one candidate a line.
in_bash() {
    bash --norc --noprofile -c '
        source "$1"
        COMP_LINE=$2
        read -r -a COMP_WORDS <<<"$2"
        [[ $2 == *" " ]] && COMP_WORDS+=("")
        COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
        _stepmark
        printf "%s\n" "${COMPREPLY[@]}"' bash "$folder/completions/bash" "$1"
}
in_fish() { HOME=$work fish --no-config -c 'source $argv[1]; complete -C $argv[2]' "$folder/completions/fish" "$1" | cut -f1; }
# As a user has it: a terminal, and the key.
cat >"$work/zsh_types" <<'END'
zmodload zsh/zpty
mkdir -p $3/fpath
cp $1/completions/zsh $3/fpath/_stepmark
zpty shell zsh -f -i
zpty -w shell "PROMPT='>'; fpath=($3/fpath \$fpath); autoload -U compinit; compinit -u -d $3/dump; setopt no_beep; bindkey '^I' complete-word; zstyle ':completion:*' menu no; stty -echo; LISTMAX=1000"
zpty -w shell "got() { print -r -- \"GOT=\$BUFFER=\" > $3/zsh_got; BUFFER=; }; zle -N got; bindkey '^G' got; print READY"
until zpty -r -m shell line '*READY*' && [[ $line == *READY* ]]; do :; done
zpty -w -n shell "$2"$'\t\a'
for i in {1..100}; do
    [[ -s $3/zsh_got ]] && break
    sleep 0.1
    zpty -r -t shell line || true
done
zpty -d shell
cat $3/zsh_got
END
in_zsh() {
    rm -f "$work/zsh_got"
    timeout 60 zsh -f "$work/zsh_types" "$folder" "$1" "$work" | sed -n 's/^GOT=stepmark \(.*\)=$/\1/p'
}

# expect SHELL LINE CANDIDATE: the shell offers it (zsh: makes this line, as there is no other).
expect() {
    shell=$1
    "in_$shell" "$2" >"$work/offered" 2>"$work/errors" || true
    grep -qx -- "$3" "$work/offered" || fail "$shell: '$2' does not offer '$3', but $(tr '\n' ' ' <"$work/offered" | head -c 300) $(head -c 300 "$work/errors")"
    [ ! -s "$work/errors" ] || fail "$shell: '$2': $(head -c 300 "$work/errors")"
}

mkdir -p "$work/somewhere/inside"
touch "$work/somewhere/a_file"
for shell in bash fish; do
    expect $shell 'stepmark pro' profile
    expect $shell 'stepmark run --preci' --precision
    expect $shell 'stepmark run --precision b' bf16
    expect $shell 'stepmark run --precision fp32,b' fp32,bf16
    expect $shell 'stepmark run -o j' jsonl
    expect $shell 'stepmark run -m ti' tiny
    expect $shell 'stepmark run --preset fw' fwdbwd
    expect $shell "stepmark train --data $work/somewhere/a_" "$work/somewhere/a_file"
    expect $shell "stepmark report $work/somewhere/a_" "$work/somewhere/a_file"
    expect $shell 'stepmark --completion z' zsh
done
expect bash 'stepmark run --precision = b' bf16
expect bash "stepmark train --save $work/somewhere/" "$work/somewhere/inside"
expect fish "stepmark train --save $work/somewhere/" "$work/somewhere/inside/"
for command in $commands; do
    for shell in bash fish; do
        expect $shell "stepmark $command" "$command"
        expect $shell "stepmark $command --hel" --help
    done
done
expect zsh 'stepmark prof' 'profile '
expect zsh 'stepmark run --precisi' 'run --precision '
expect zsh 'stepmark run --precision fp1' 'run --precision fp16'
expect zsh 'stepmark run --precision fp32,fp1' 'run --precision fp32,fp16'
expect zsh 'stepmark run --preset fw' 'run --preset fwdbwd '
expect zsh "stepmark report $work/somewhere/a_" "report $work/somewhere/a_file "

[ $failed = 0 ] || exit 1
echo "manual pages: $n_pages pass mandoc -Tlint; bash, zsh and fish complete"
