#!/bin/sh
# Installs eastwest as a systemd service from this folder, without a network. Run as root; run again to upgrade.
#   ./install.sh             the daemon: installed, enabled, started
#   ./install.sh --no-start  files only
#   ./install.sh --remove    all of it but /etc/eastwest and /var/lib/eastwest
# DESTDIR=/some/root installs into another root (for packages and images) and starts nothing.
set -eu
cd "$(dirname "$0")"
root=${DESTDIR:-}
home=/opt/eastwest
units=/etc/systemd/system
wanted=@PYTHON@

fail() { echo "install.sh: $*" >&2; exit 1; }
manage() { [ -n "$root" ] || [ ! -d /run/systemd/system ] || systemctl "$@"; }

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
    manage daemon-reload
}

install_files() {
    using=$(python)
    [ "$(uname -m)" = "@MACHINE@" ] || fail "this archive was built for @MACHINE@"
    mkdir -p "$root/opt" "$root$units" "$root/etc/sysusers.d" "$root/etc/eastwest"
    rm -rf "$root$home.new"
    "$using" -m venv --without-pip "$root$home.new"
    cp -R lib/. "$root$home.new/lib/python$wanted/site-packages/"
    rm -rf "$root$home.new/bin/activate" "$root$home.new/bin"/activate.* "$root$home.new/bin/Activate.ps1"
    printf '#!%s/bin/python3 -sP\nimport sys\nfrom exporter.cli import main\nsys.exit(main())\n' "$home" \
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
    [ -e "$root/etc/eastwest/eastwest.yml" ] || install -m 644 systemd/eastwest.yml "$root/etc/eastwest/eastwest.yml"
}

[ -n "$root" ] || [ "$(id -u)" = 0 ] || fail "root is needed"
case ${1:-} in
    --remove) remove; exit ;;
    ''|--no-start) install_files ;;
    *) fail "usage: install.sh [--no-start|--remove]" ;;
esac
[ -z "$root" ] || exit 0
systemd-sysusers /etc/sysusers.d/eastwest.conf
manage daemon-reload
if [ "${1:-}" != --no-start ]; then
    manage enable eastwest.service
    manage restart eastwest.service
    echo "eastwest runs: http://localhost:10428/ (configuration: /etc/eastwest/eastwest.yml)"
fi
