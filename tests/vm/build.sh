#!/usr/bin/env bash
# What a guest is made of, into build/vm: Debian's stock kernel, its modules, a small initramfs. Once; seconds after
# the download (70 MB). The guest's root is this machine's own, read-only: nothing else is needed.
set -euo pipefail
cd "$(dirname "$0")/../.."
here=tests/vm/guest
out=build/vm

missing=()
for tool in qemu-system-x86_64 busybox cpio depmod modprobe dpkg apt-get python3; do
    command -v "$tool" >/dev/null || missing+=("$tool")
done
if [ ${#missing[@]} -gt 0 ]; then
    echo "no guest can be made without: ${missing[*]}"
    exit 0
fi
mkdir -p "$out/debs"
kernel=$(apt-cache depends linux-image-amd64 | sed -n 's/.*Depends: linux-image-//p' | head -1)
if ! ls "$out/debs/linux-image-$kernel"_*.deb >/dev/null 2>&1; then
    (cd "$out/debs" && apt-get -qq download "linux-image-$kernel")
fi
if [ ! -e "$out/root/lib/modules/$kernel/modules.dep" ]; then
    rm -rf "$out/root"
    dpkg -x "$out/debs/linux-image-$kernel"_*.deb "$out/root"
    depmod -b "$out/root" "$kernel"
fi
# Not compressed: unpacking it costs an emulated processor seconds (the kernel can be started as it is, by PVH).
python3 - "$out/root/boot/vmlinuz-$kernel" "$out/vmlinux" <<'PY'
import lzma, sys
packed = open(sys.argv[1], "rb").read()
found = lzma.LZMADecompressor().decompress(packed[packed.find(b"\xfd7zXZ\x00"):])
assert found[:4] == b"\x7fELF", "the kernel is not packed by xz"
open(sys.argv[2], "wb").write(found)
PY
rm -rf "$out/initrd"
mkdir -p "$out/initrd"/{bin,m,dev,proc,sys,ro,rw,new}
cp "$(command -v busybox)" "$out/initrd/bin/busybox"
for module in virtio_pci 9pnet_virtio 9p overlay virtio_console; do
    modprobe -d "$out/root" -S "$kernel" --show-depends "$module"
done | awk '/^insmod/ && !seen[$2]++ {print $2}' | while read -r file; do
    cp "$file" "$out/initrd/m/"
    basename "$file" >> "$out/initrd/m/order"
done
install -m 755 "$here/init.sh" "$out/initrd/init"
(cd "$out/initrd" && find . | cpio -o -H newc --quiet -R 0:0) > "$out/initrd.cpio"
# systemd in the guest: what it need not start, and the agent.
rm -rf "$out/units"
mkdir "$out/units"
cp "$here/lab.target" "$out/units/"
sed "s#@AGENT@#$PWD/$here/agent.sh#" "$here/lab-agent.service" > "$out/units/lab-agent.service"
while read -r unit; do ln -s /dev/null "$out/units/$unit"; done < "$here/masked.txt"
echo "guest: Linux $kernel"
