#!/bin/sh
# compilers.sh: brings the compilers of AMD's and Intel's OpenCL drivers, which need no card, from Debian's suite sid
# into a folder outside the tree, without installing them (an installed driver would be one more platform), unless they
# are there; prints the folder. STEPMARK_VENDORS names another one. About 1.3 GB and two minutes, as root (comgr runs in
# a chroot: its precompiled header names its place). It leaves there
#   ocloc ARG...                            Intel's
#   comgr TARGET TO "OPTIONS" SOURCE        ROCm's libamd_comgr, with what clBuildProgram asks of it
set -eu
here=$(cd "$(dirname "$0")/../.." && pwd)
top=${STEPMARK_VENDORS:-${XDG_CACHE_HOME:-$HOME/.cache}/stepmark/vendors}
if [ -x "$top/comgr" ] && [ -x "$top/ocloc" ]; then
    echo "$top"
    exit
fi
[ "$(id -u)" = 0 ] || { echo "vendors: this needs root" >&2; exit 1; }
echo "setting up AMD's and Intel's compilers in $top" >&2
mkdir -p "$top" && cd "$top"
mkdir -p apt/etc/apt.conf.d apt/etc/preferences.d apt/state/lists/partial apt/cache/archives/partial root include
: >apt/none
# The mirror that this machine uses.
mirror=$(cat /etc/apt/sources.list.d/*.sources /etc/apt/sources.list 2>/dev/null |
    awk '/^URIs:/ && $2 !~ /security/ { print $2; exit } /^deb / { print $2; exit }')
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror sid main" >apt/etc/sources.list
fetch() {
    apt-get -q "$@" -o Dir::Etc="$top/apt/etc" -o Dir::Etc::sourcelist="$top/apt/etc/sources.list" \
        -o Dir::Etc::sourceparts=/dev/null -o Dir::State="$top/apt/state" -o Dir::State::status="$top/apt/none" \
        -o Dir::Cache="$top/apt/cache" -o APT::Sandbox::User=root -o Acquire::Languages=none >&2
}
fetch update
fetch -y --no-install-recommends --download-only install libc6 bash coreutils libstdc++6 intel-ocloc libigc2 libigdfcl2 \
    libigdgmm12 libamd-comgr3 libamd-comgr-dev rocm-device-libs-21 clang-21
for package in apt/cache/archives/*.deb; do dpkg -x "$package" root; done
rm -rf apt/cache
lib=$top/root/usr/lib/x86_64-linux-gnu
mkdir -p root/work root/tmp
ln -sfn "$top/root/usr/include/amd_comgr" include/amd_comgr
cc -O1 -Wall -Iinclude -o root/work/comgr "$here/tests/emulation/comgr.c" "$lib/libamd_comgr.so.3" \
    -Wl,--unresolved-symbols=ignore-in-shared-libs
cat >ocloc <<END
#!/bin/sh
exec $lib/ld-linux-x86-64.so.2 --library-path $lib $(echo "$top"/root/usr/bin/ocloc-*) "\$@"
END
cat >comgr <<END
#!/bin/sh
set -eu
stem=/work/\$\$
trap 'rm -f $top/root\$stem.cl $top/root\$stem.s' EXIT
cp "\$4" $top/root\$stem.cl
chroot $top/root /work/comgr "\$1" \$stem.s "\$3" \$stem.cl
cp $top/root\$stem.s "\$2"
END
chmod +x ocloc comgr
echo "$top"
