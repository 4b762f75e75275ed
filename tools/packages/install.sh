#!/bin/sh
# install.sh install|uninstall BUILD_FOLDER: installs program, manual pages, completions and documents below
# $DESTDIR$PREFIX, or removes them. ZSHDIR: zsh's folder of completions there.
set -eu
action=$1
build=$2
prefix=${DESTDIR:-}${PREFIX:-/usr/local}

# each SOURCE TARGET MODE: one file
each() {
    if [ "$action" = install ]; then
        install -D -m "$3" "$1" "$prefix/$2"
    else
        rm -f "$prefix/$2"
    fi
}

each "$build/stepmark" bin/stepmark 755
for page in "$build"/pages/man/man1/*.1; do
    each "$page" "share/man/man1/$(basename "$page")" 644
done
each "$build/pages/completions/bash" share/bash-completion/completions/stepmark 644
each "$build/pages/completions/zsh" "${ZSHDIR:-share/zsh/site-functions}/_stepmark" 644
each "$build/pages/completions/fish" share/fish/vendor_completions.d/stepmark.fish 644
for document in README.md docs/*.md docs/*.json docs/course/*; do
    each "$document" "share/doc/stepmark/$document" 644
done
[ "$action" = install ] || rmdir "$prefix/share/doc/stepmark/docs/course" "$prefix/share/doc/stepmark/docs" "$prefix/share/doc/stepmark" 2>/dev/null || true
