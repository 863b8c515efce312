# Stands in for the image of PostgreSQL where no registry is in reach: Debian's, with
# what docker-compose.yml needs of the official one.
ARG BASE=debian:bookworm-slim
FROM ${BASE}
RUN apt-get update -qq && \
    apt-get install -y -qq --no-install-recommends postgresql && \
    rm -rf /var/lib/apt/lists/* /var/lib/postgresql/15 && \
    install -d -o postgres -g postgres -m 700 /var/lib/postgresql/data
# Open to all, as in the official image: a tmpfs has the mode of what it covers.
RUN chmod 3777 /run/postgresql
COPY tests/deploy/postgres.sh /usr/local/bin/postgres.sh
ENV PATH=/usr/lib/postgresql/15/bin:/usr/local/bin:/usr/bin:/bin \
    PGDATA=/var/lib/postgresql/data
USER postgres
CMD ["postgres.sh"]
