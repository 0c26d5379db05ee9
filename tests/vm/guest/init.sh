#!/bin/busybox sh
# The guest's first process: this machine's root over 9p, under a layer in memory; then a shell script or systemd.
B=/bin/busybox
$B mount -t devtmpfs dev /dev; $B mount -t proc proc /proc; $B mount -t sysfs sys /sys
while read -r m; do $B insmod "/m/$m" || echo "insmod $m failed"; done < /m/order
for x in $($B cat /proc/cmdline); do
    case $x in lab.script=*) S=${x#*=};; lab.init=*) I=${x#*=};; lab.modules=*) M=${x#*=};; lab.units=*) U=${x#*=};; esac
done
$B mount -t 9p -o ro,trans=virtio,version=9p2000.L,cache=loose,msize=1048576 hostroot /ro || $B poweroff -f
$B mount -t tmpfs -o mode=755,size=75% rw /rw; $B mkdir /rw/u /rw/w
$B mount -t overlay -o lowerdir=/ro,upperdir=/rw/u,workdir=/rw/w root /new
$B mkdir -p /new/lib/modules; $B mount --bind "/new$M" /new/usr/lib/modules
for d in dev proc sys; do $B mount --move /$d /new/$d; done
$B mkdir -p /new/dev/pts /new/dev/shm; $B mount -t devpts devpts /new/dev/pts; $B mount -t tmpfs shm /new/dev/shm
$B mount -t tmpfs -o mode=755 run /new/run
# With it, systemd takes itself for a container and ignores the kernel's command line.
$B rm -f /new/.dockerenv
if [ -n "$I" ]; then
    # These would empty the machine's /tmp in the layer, file by file.
    $B mkdir -p /new/etc/tmpfiles.d /new/run/systemd/system
    for f in tmp home var systemd-nologin; do $B ln -sf /dev/null /new/etc/tmpfiles.d/$f.conf; done
    $B cp -a "/new$U/." /new/run/systemd/system/
    S=
fi
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
exec $B switch_root /new "${I:-/bin/bash}" $S
