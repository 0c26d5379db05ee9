#!/bin/sh
# Installs eastwest as a systemd service from this folder, without a network. Run as root; run again to upgrade.
#   ./install.sh             the daemon: installed, enabled, started
#   ./install.sh --no-start  files and user only
#   ./install.sh --remove    all of it but /etc/eastwest, /var/lib/eastwest and the user, whose files those are
#   ./install.sh --help      this
# DESTDIR=/some/root installs into another root (for packages and images) and starts nothing.
set -eu
umask 022 # root's own may keep the service's user out of what is made here
cd "$(dirname "$0")"
root=${DESTDIR:-}
home=/opt/eastwest
units=/etc/systemd/system
config=/etc/eastwest/eastwest.yml
textfile=/run/eastwest-textfile
wanted=@PYTHON@

fail() { echo "install.sh: $*" >&2; exit 1; }
booted() { [ -z "$root" ] && [ -d /run/systemd/system ]; }
manage() { ! booted || systemctl "$@"; }

python() { # the distribution's Python first: it lives as long as the machine
    for candidate in "/usr/bin/python$wanted" /usr/bin/python3 "$(command -v "python$wanted" || true)"; do
        [ -x "$candidate" ] || continue
        [ "$("$candidate" -c 'import sys; print("%d.%d" % sys.version_info[:2])')" = "$wanted" ] || continue
        echo "$candidate"
        return
    done
    fail "Python $wanted is needed: this archive was built for it (make dist PYTHON=... builds for another)"
}

remove() {
    manage disable --now eastwest.service eastwest-textfile.timer 2>/dev/null || true
    rm -rf "$root$home" "$root$units/eastwest.service" "$root/etc/sysusers.d/eastwest.conf"
    rm -f "$root$units/eastwest-textfile.service" "$root$units/eastwest-textfile.timer"
    # Or node_exporter would show the last values for ever.
    rm -rf "$root$textfile"
    manage daemon-reload
    echo "eastwest is removed from ${root:-this machine}; /etc/eastwest, /var/lib/eastwest and the user eastwest stay"
}

install_files() {
    using=$(python)
    [ "$(uname -m)" = "@MACHINE@" ] || fail "this archive was built for @MACHINE@"
    mkdir -p "$root/opt" "$root$units" "$root/etc/sysusers.d" "$root/etc/eastwest"
    rm -rf "$root$home.new"
    "$using" -m venv --without-pip "$root$home.new"
    cp -R lib/. "$root$home.new/lib/python$wanted/site-packages/"
    rm -rf "$root$home.new/bin/activate" "$root$home.new/bin"/activate.* "$root$home.new/bin/Activate.ps1"
    printf '#!%s/bin/python3 -sP\nfrom exporter.__main__ import run\nrun()\n' "$home" \
        > "$root$home.new/bin/eastwest"
    chmod 755 "$root$home.new/bin/eastwest"
    sed -i "s#$root$home.new#$home#g" "$root$home.new/pyvenv.cfg"
    chmod -R u=rwX,go=rX "$root$home.new"
    # The running daemon has what it needs in memory; its NVML worker may be started anew between the two.
    rm -rf "$root$home.old"
    [ ! -e "$root$home" ] || mv "$root$home" "$root$home.old"
    mv "$root$home.new" "$root$home"
    rm -rf "$root$home.old"
    for unit in eastwest.service eastwest-textfile.service eastwest-textfile.timer; do
        install -m 644 "systemd/$unit" "$root$units/$unit"
    done
    install -m 644 systemd/sysusers.conf "$root/etc/sysusers.d/eastwest.conf"
    [ -e "$root$config" ] || install -m 644 systemd/eastwest.yml "$root$config"
}

make_user() {
    command -v systemd-sysusers >/dev/null \
        || { echo "there is no systemd-sysusers here: the user eastwest, which the units name, was not made"; return; }
    systemd-sysusers /etc/sysusers.d/eastwest.conf
    # A folder that was there before keeps its mode: it may be somebody's choice, but the service can't start then.
    ! command -v setpriv >/dev/null || setpriv --reuid eastwest --regid eastwest --init-groups test -r "$config" \
        || echo "install.sh: the user eastwest can't read $config; see: namei -l $config" >&2
}

action=start
for flag in "$@"; do
    case $flag in
        --help|-h) sed -n '2,/^set/s/^# \{0,1\}//p' install.sh; exit ;;
        --remove) action=remove ;;
        --no-start) [ "$action" = remove ] || action=files ;;
        *) fail "usage: install.sh [--no-start|--remove|--help]" ;;
    esac
done
[ -n "$root" ] || [ "$(id -u)" = 0 ] || fail "root is needed"
[ "$action" != remove ] || { remove; exit; }
install_files
if [ -n "$root" ]; then
    echo "eastwest is in $root; nothing was enabled or started, and its user is made from sysusers.d at the first boot"
    exit
fi
make_user
manage daemon-reload
if ! booted; then
    echo "eastwest is installed, but not enabled or started: systemd does not run here. Once it does:"
    echo "  systemctl enable --now eastwest    (or, without: $home/bin/eastwest serve --config $config)"
elif [ "$action" = files ]; then
    echo "eastwest is installed, but not enabled or started: systemctl enable --now eastwest"
else
    manage enable eastwest.service
    manage restart eastwest.service
    said=$(systemctl show --value -p StatusText eastwest.service || true)
    echo "eastwest runs: ${said:-see systemctl status eastwest} (configuration: $config)"
fi
