#!/bin/sh
# deb.sh: builds the Debian package from the tracked files, in a copy: build/deb/stepmark_VERSION_ARCH.deb. The same
# sources always give the same package, bit for bit.
set -eu
cd "$(dirname "$0")/../.."
version=$(sed -n '1s/.*(\(.*\)).*/\1/p' debian/changelog)
BUILD_COMMIT=${BUILD_COMMIT:-$(git rev-parse --short=12 HEAD)}
BUILD_DIRTY=${BUILD_DIRTY:-$(test -z "$(git status --porcelain | head -1)" && echo 0 || echo 1)}
export BUILD_COMMIT BUILD_DIRTY DEB_BUILD_OPTIONS="${DEB_BUILD_OPTIONS:-noautodbgsym}"
# For another processor: its compiler.
arch=$(dpkg-architecture -t "$(${CC:-gcc} -dumpmachine)" -qDEB_HOST_ARCH)
unset CC MAKEFLAGS MFLAGS MAKELEVEL CONFIG B
copy=build/deb/stepmark-$version
rm -rf "$copy"
mkdir -p "$copy"
git ls-files -z | xargs -0 cp --parents -t "$copy"
(cd "$copy" && dpkg-buildpackage -b -us -uc -a"$arch")
rm -rf "$copy"
ls build/deb/*_"$arch".deb
