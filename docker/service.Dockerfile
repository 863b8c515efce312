# The service, and the filter before the Docker socket: one static binary and the
# few files it reads.
#
#   docker build -t sandboxd:latest -f docker/service.Dockerfile .
#
# RUST     builds it
# BINARY   an image that has it as /sandboxd; then RUST is not even pulled
# TOOLS    any Debian; makes the files beside the binary
# RUNTIME  what it runs on; debian:bookworm-slim gives a shell to look around with
ARG RUST=rust:1-bookworm
ARG BINARY=builder
ARG TOOLS=debian:bookworm-slim
ARG RUNTIME=scratch

FROM ${RUST} AS builder
WORKDIR /src
COPY . .
# Static, so that it runs on nothing. The target is named for the build scripts' sake:
# else the flags were theirs too.
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/src/target \
    target=$(uname -m)-unknown-linux-gnu && \
    RUSTFLAGS='-C target-feature=+crt-static' \
        cargo build --release --locked --target "$target" -p sandboxd && \
    cp "target/$target/release/sandboxd" /sandboxd

FROM ${BINARY} AS binary

FROM ${TOOLS} AS files
SHELL ["/bin/sh", "-euc"]
# The certificates of a `jwks_url`, a database with TLS, a Docker daemon elsewhere.
RUN [ -s /etc/ssl/certs/ca-certificates.crt ] || { \
        apt-get update -qq; \
        apt-get install -y -qq --no-install-recommends ca-certificates; \
    }
RUN mkdir -p /files/etc/ssl/certs /files/tmp /files/var/lib/sandboxd; \
    cp -L /etc/ssl/certs/ca-certificates.crt /files/etc/ssl/certs/; \
    echo 'root:x:0:0:root:/:/sbin/nologin' >/files/etc/passwd; \
    echo 'sandboxd:x:65532:65532:sandboxd:/var/lib/sandboxd:/sbin/nologin' >>/files/etc/passwd; \
    echo 'root:x:0:' >/files/etc/group; \
    echo 'sandboxd:x:65532:' >>/files/etc/group; \
    echo 'hosts: files dns' >/files/etc/nsswitch.conf; \
    chmod 1777 /files/tmp; \
    chmod 700 /files/var/lib/sandboxd; \
    chown 65532:65532 /files/var/lib/sandboxd

FROM ${RUNTIME}
COPY --from=files /files/ /
COPY --from=binary /sandboxd /usr/local/bin/sandboxd
# All addresses, so the service does not start without a key for tokens or API keys.
ENV PATH=/usr/local/bin:/usr/bin:/bin \
    SANDBOX_BACKEND=docker \
    SANDBOX_LISTEN=0.0.0.0:8080 \
    SANDBOX_STATE_DIR=/var/lib/sandboxd
USER 65532:65532
EXPOSE 8080
HEALTHCHECK --interval=5s --timeout=5s --start-period=30s --retries=3 CMD ["/usr/local/bin/sandboxd", "health"]
ENTRYPOINT ["/usr/local/bin/sandboxd"]
CMD ["serve"]
