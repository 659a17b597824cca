# syntax=docker/dockerfile:1
# Three stages: the first two have the toolchains, the final image has just the binary.

FROM node:22-trixie-slim AS dashboard
WORKDIR /src
COPY dev/lib.sh dev/dashboard.sh dev/
COPY dashboard dashboard
RUN sh dev/dashboard.sh

FROM rust:1.95-trixie AS build
WORKDIR /src
COPY dev/lib.sh dev/setup.sh dev/
COPY Cargo.toml ./
# The Lua guest's compiler, in a separate layer because it changes less often than the source.
RUN apt-get update && sh dev/setup.sh build && rm -rf /var/lib/apt/lists/*
COPY . .
COPY --from=dashboard /src/dashboard/dist dashboard/dist
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/target \
    CARGO_TARGET_DIR=/target cargo build --release --locked --package belvedere \
    && cp /target/release/belvedere /usr/local/bin/belvedere

FROM debian:trixie-slim
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates curl \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --uid 10001 --home-dir /data --shell /usr/sbin/nologin belvedere \
    && install -d -o belvedere -g belvedere /data
COPY --from=build /usr/local/bin/belvedere /usr/local/bin/belvedere
USER belvedere
WORKDIR /data
# Persistent data is under /data. A new volume is initialised from this folder with the prepared guest, so that the first
# start is as fast as later ones.
ENV HOST=0.0.0.0 PORT=3000 DATA_DIR=/data
RUN belvedere guest prepare
VOLUME /data
EXPOSE 3000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s CMD curl -fsS http://127.0.0.1:3000/health || exit 1
ENTRYPOINT ["belvedere"]
CMD ["serve"]
