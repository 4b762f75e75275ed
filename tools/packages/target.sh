# shellcheck shell=sh disable=SC2034
# target.sh: sourced: what $CC makes programs for: $system (linux, windows, macos), $arch, a program's ending $exe, a wheel's
# $platform; the build folder $B and $linked, where the program to give away lies; $version. Files get modes that do not
# depend on the user's.
CC=${CC:-gcc}
triple=$($CC -dumpmachine)
arch=${triple%%-*}
exe=
case $triple in
*mingw*) system=windows exe=.exe platform=win_amd64 ;;
*macos*) system=macos platform=macosx_11_0_arm64 ;;
*) system=linux platform=manylinux_2_28_$arch ;;
esac
B=build/portable-$system-$arch
linked=$B/linked
version=$(sed -n '1s/.*(\(.*\)).*/\1/p' debian/changelog)
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export CC SOURCE_DATE_EPOCH
umask 022
