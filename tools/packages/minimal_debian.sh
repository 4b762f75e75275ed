# shellcheck shell=sh
# minimal_debian.sh: sourced: makes a minimal Debian $suite in a folder $root, which vanishes at the end. As root;
# build/debian-SUITE.tar caches it, MIRROR=URI is another mirror.
fresh=build/debian-${suite:?}.tar
root=$(mktemp -d)
chmod 755 "$root" # other users work in it, too
cleanup() {
    umount "$root/proc" "$root/sys" "$root/dev/pts" 2>/dev/null || true
    rm -rf --one-file-system "$root"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

# inside COMMAND...: in the fresh Debian, which has no other library's path.
inside() {
    env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root DEBIAN_FRONTEND=noninteractive \
        LC_ALL=C.UTF-8 ${http_proxy:+http_proxy="$http_proxy"} ${https_proxy:+https_proxy="$https_proxy"} chroot "$root" "$@"
}

if [ ! -f "$fresh" ]; then
    echo "making a fresh Debian $suite" >&2
    mkdir -p build
    debootstrap --variant=minbase --include=make "$suite" "$root" "${MIRROR:-http://deb.debian.org/debian}" >/dev/null
    tar -C "$root" --exclude=./proc/* -cf "$fresh.new" .
    mv "$fresh.new" "$fresh"
else
    tar -C "$root" -xf "$fresh"
fi
mount -t proc proc "$root/proc" 2>/dev/null || true # where they may not be mounted, stepmark does without
mount -t sysfs -o ro sysfs "$root/sys" 2>/dev/null || true
mount -t devpts -o newinstance,ptmxmode=666 devpts "$root/dev/pts" 2>/dev/null || true # terminals of their own
cp /etc/resolv.conf "$root/etc/resolv.conf"
cp /etc/apt/apt.conf.d/*proxy* "$root/etc/apt/apt.conf.d/" 2>/dev/null || true
