#!/usr/bin/env bash
# build.sh TAG: the image, by Docker, Podman or Buildah, whichever is there.
#   BASE=image      another base; BASE=mmdebstrap makes one from Debian's packages, for machines without a registry
#   CA=file         certificates for the package index, where something in between has its own
set -euo pipefail
cd "$(dirname "$0")/../.."
tag=$1
base=${BASE:-}

tool=
if command -v docker >/dev/null && docker info >/dev/null 2>&1; then
    tool=docker
elif command -v buildah >/dev/null; then
    tool=buildah
elif command -v podman >/dev/null; then
    tool=podman
fi
[ -n "$tool" ] || { echo "no image can be built without docker, buildah or podman" >&2; exit 1; }

if [ "$base" = mmdebstrap ]; then
    base=localhost/eastwest-base:bookworm
    if ! "$tool" inspect "$base" >/dev/null 2>&1; then
        mkdir -p build/image
        [ -s build/image/base.tar ] || mmdebstrap --quiet --variant=minbase bookworm build/image/base.tar
        if [ "$tool" = buildah ]; then
            from=$(buildah from scratch)
            buildah add --quiet "$from" build/image/base.tar / >/dev/null
            buildah commit --quiet --rm "$from" "$base" >/dev/null
        else
            "$tool" import build/image/base.tar "$base" >/dev/null
        fi
    fi
fi
options=()
[ -z "$base" ] || options+=(--build-arg "BASE=$base")
if [ "$tool" != docker ]; then
    # No network of its own and no namespaces are needed to copy files; Docker's format has HEALTHCHECK.
    options+=(--format docker --isolation chroot --network host)
    [ -z "${CA:-}" ] || options+=(--volume "$CA:/run/ca.crt:ro" --build-arg PIP_CERT=/run/ca.crt)
fi
case $tool in
    buildah) buildah build "${options[@]}" --tag "$tag" . ;;
    *) "$tool" build "${options[@]}" --tag "$tag" . ;;
esac
echo "image $tag: $("$tool" images --format '{{.Size}}' "$tag")"
