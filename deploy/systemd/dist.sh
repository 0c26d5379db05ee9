#!/usr/bin/env bash
# dist.sh PYTHON: one archive that installs without a network: the program, what requirements-run.lock names (checked
# by hash), the units, install.sh, the documents. For the PYTHON's version and this machine's processor; the same files
# give the same bytes, wherever they lie and whoever builds.
set -euo pipefail
umask 022
cd "$(dirname "$0")/../.."
python=$1
version=$("$python" -c 'import exporter; print(exporter.__version__)')
wanted=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
machine=$(uname -m)
name=eastwest-exporter-$version-py$wanted-$machine
tree=build/dist/$name
# The commit's time; without git, a moment that is always the same.
epoch=${SOURCE_DATE_EPOCH:-$(git -c safe.directory='*' log -1 --format=%ct 2>/dev/null || echo 1580601600)}
pip() { "$python" -m pip --quiet --disable-pip-version-check "$@"; }

rm -rf build/dist
mkdir -p "$tree/systemd" dist
SOURCE_DATE_EPOCH=$epoch pip wheel --no-deps --no-build-isolation --wheel-dir build/dist .
pip install --require-hashes --only-binary=:all: --no-compile --target "$tree/lib" -r requirements-run.lock
rm -rf "$tree/lib/bin" # or the next one complains
# By name, not by path: pip would note the path.
pip install --no-deps --no-compile --no-index --find-links build/dist --target "$tree/lib" "eastwest-exporter==$version"
"$python" deploy/systemd/tidy.py "$tree/lib"
# Compiled now, since the daemon may write nothing later; by hash, so that no clock matters.
PYTHONHASHSEED=0 "$python" -m compileall -q --invalidation-mode unchecked-hash -s "$tree/lib" -p /opt/eastwest "$tree/lib"
cp deploy/systemd/*.service deploy/systemd/*.timer deploy/systemd/sysusers.conf deploy/systemd/eastwest.yml "$tree/systemd/"
sed -e "s/@PYTHON@/$wanted/" -e "s/@MACHINE@/$machine/" deploy/systemd/install.sh > "$tree/install.sh"
chmod 755 "$tree/install.sh"
# The documents with all that they point to.
cp -R --parents README.md LICENSE CHANGELOG.md CONTRIBUTING.md docs deploy/prometheus deploy/helm/eastwest \
    deploy/kubernetes grafana/dashboards grafana/provisioning "$tree/"
tar --sort=name --format=gnu --mtime="@$epoch" --mode=u=rwX,go=rX --owner=0 --group=0 --numeric-owner -C build/dist -cf - "$name" \
    | gzip -n -6 > "dist/$name.tar.gz"
(cd dist && sha256sum "$name.tar.gz" > "$name.tar.gz.sha256")
echo "dist/$name.tar.gz: $(du -h "dist/$name.tar.gz" | cut -f1), unpacked $(du -sh "$tree" | cut -f1)"
