# What programs in a sandbox see as their system: Python with the usual packages,
# node, git. The service brings its own guest, so any other image will do as well
# (docs/deploy.md).
#
#   docker build -t sandboxd-worker:latest -f docker/worker.Dockerfile .
#
# BASE is Debian with Python 3.11 or later, wherever that has its Python from.
# Behind a proxy that signs with a CA of its own:
#   --secret id=ca,src=/etc/ssl/certs/ca-certificates.crt
ARG BASE=python:3.12-slim-bookworm

FROM ${BASE} AS packages
SHELL ["/bin/sh", "-euc"]
# Debian's Python has its venv in a package of its own.
RUN python3 -c 'import ensurepip, venv' 2>/dev/null || { \
        apt-get update -qq; \
        apt-get install -y -qq --no-install-recommends python3-venv; \
    }
COPY docker/worker-requirements.txt /requirements.txt
# With the system's packages, for only then is there a user's own site: it is in
# the workspace, and `pip install` falls back on it where the root is read-only.
RUN --mount=type=secret,id=ca \
    python3 -m venv --system-site-packages /opt/python; \
    if [ -s /run/secrets/ca ]; then export PIP_CERT=/run/secrets/ca; fi; \
    /opt/python/bin/pip install --no-cache-dir --disable-pip-version-check --no-compile \
        --require-hashes --only-binary :all: -r /requirements.txt
# Tests of packages are a fifth of them. Byte code cannot be written later on, and
# is never stale, so nothing need look.
RUN find /opt/python -depth -type d \( -name tests -o -name __pycache__ \) -exec rm -rf {} +; \
    python3 -m compileall -q -j 0 --invalidation-mode unchecked-hash /opt/python/lib

FROM ${BASE}
SHELL ["/bin/sh", "-euc"]
# esbuild is what POST /execute turns TypeScript into JavaScript with.
RUN apt-get update -qq; \
    apt-get install -y -qq --no-install-recommends ca-certificates esbuild git nodejs procps; \
    apt-get clean; \
    rm -rf /var/lib/apt/lists/* /var/cache/* /var/log/*
# 65532 is the user of every program. Nothing is setuid: no_new_privs holds anyway.
# The byte code of the library is not in every base, and would be made at each start.
RUN groupadd --gid 65532 sandbox; \
    useradd --uid 65532 --gid 65532 --home-dir /workspace --no-create-home --shell /bin/bash sandbox; \
    install -d -o 65532 -g 65532 -m 755 /workspace; \
    find / -xdev -type f -perm /6000 -exec chmod a-s {} +; \
    python3 -m compileall -q -j 0 -x '/(tests?|idlelib|lib2to3|turtledemo|site-packages|dist-packages)/' \
        "$(python3 -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')"
COPY --from=packages /opt/python /opt/python

# One thread of linear algebra for the usual sandbox of one processor: else there
# is one for each of the host's, each with its memory, against the sandbox's limits.
ENV PATH=/opt/python/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/workspace/.local/bin \
    LANG=C.UTF-8 \
    MPLBACKEND=agg \
    MPLCONFIGDIR=/tmp/.matplotlib \
    OMP_NUM_THREADS=1 \
    OPENBLAS_NUM_THREADS=1 \
    PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PYTHONDONTWRITEBYTECODE=1

# A new volume at /workspace takes its owner from here, so that the service need
# not give it away: with this label it does not.
LABEL dev.sandboxd.workspace=65532
USER 65532:65532
WORKDIR /workspace
CMD ["bash"]
