# The daemon in a container: not root, nothing written, no shell needed. docs/install.md says how it is run.
# Debian, since pyverbs and perftest fit the distribution's libibverbs and Python alone. A point release of it; the
# Python libraries by version and hash.
ARG BASE=docker.io/library/debian:12.11-slim

FROM ${BASE} AS build
RUN apt-get update \
 && apt-get install -y --no-install-recommends ca-certificates python3 python3-pip python3-venv
WORKDIR /src
# A file of certificates for the package index, where something in between has its own (CA= of deploy/container/build.sh).
ARG PIP_CERT=
COPY requirements.lock requirements-run.lock ./
# What the wheel is built with stays here; what runs goes into an environment without pip.
RUN python3 -m venv /build \
 && /build/bin/pip install --quiet --no-cache-dir --require-hashes --only-binary=:all: -r requirements.lock \
 && python3 -m venv --without-pip /opt/eastwest \
 && /build/bin/pip --python /opt/eastwest/bin/python install --quiet --no-cache-dir --no-compile \
        --require-hashes --only-binary=:all: -r requirements-run.lock
COPY pyproject.toml README.md LICENSE ./
COPY exporter exporter
RUN /build/bin/pip wheel --quiet --no-deps --no-build-isolation --wheel-dir /wheel . \
 && /build/bin/pip --python /opt/eastwest/bin/python install --quiet --no-deps --no-compile /wheel/*.whl \
 && rm -rf /opt/eastwest/bin/activate* /opt/eastwest/bin/Activate.ps1 /opt/eastwest/lib/python3*/site-packages/numpy/tests \
           /opt/eastwest/lib/python3*/site-packages/numpy/*/tests \
 && python3 -m compileall -q --invalidation-mode unchecked-hash /opt/eastwest/lib

FROM ${BASE}
RUN apt-get update \
 && apt-get install -y --no-install-recommends python3 python3-pyverbs ibverbs-providers perftest \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/log/*.log /var/log/apt /usr/share/doc/* /usr/share/man/* \
 && install -d -o 10428 -g 10428 /var/lib/eastwest
COPY --from=build /opt/eastwest /opt/eastwest
# NVML for the GPUs of the node, where NVIDIA's container runtime starts this; nothing of CUDA.
ENV PATH=/opt/eastwest/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONFAULTHANDLER=1 \
    NVIDIA_VISIBLE_DEVICES=all \
    NVIDIA_DRIVER_CAPABILITIES=utility
LABEL org.opencontainers.image.title="eastwest-exporter" \
      org.opencontainers.image.licenses="Apache-2.0"
USER 10428:10428
EXPOSE 10428
# Of the default address; with TLS, passwords or another port, an orchestrator's own probe takes its place.
HEALTHCHECK --interval=60s --timeout=5s --start-period=20s \
    CMD ["python3", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:10428/healthz', timeout=4)"]
ENTRYPOINT ["/opt/eastwest/bin/eastwest"]
CMD ["serve"]
