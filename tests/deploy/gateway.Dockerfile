# Stands in for the image of Caddy where no registry is in reach: Debian's Caddy.
ARG BASE=debian:bookworm-slim
FROM ${BASE}
RUN apt-get update -qq && apt-get install -y -qq --no-install-recommends caddy && rm -rf /var/lib/apt/lists/*
