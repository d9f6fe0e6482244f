# Penstock in a container, installed as a package. This file was not run where it was written: there is no Docker there.
#
#   docker build -t penstock .
#   docker run --init -p 1935:1935 -p 127.0.0.1:8080:8080 -v penstock-data:/data penstock
#
# Docker's default profile forbids io_uring; the server does without it, and says nothing of it. `--workers auto` counts
# the cores that --cpus allows.

FROM python:3.11-slim AS build
WORKDIR /source
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY src ./src
RUN python -m venv /opt/penstock && /opt/penstock/bin/pip install --no-cache-dir --constraint constraints.txt '.[web]'

FROM python:3.11-slim
RUN useradd --system --uid 10001 --home-dir /data --no-create-home penstock && install -d -o penstock -m 0700 /data
COPY --from=build /opt/penstock /opt/penstock
USER penstock
VOLUME /data
EXPOSE 1935 8080
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=10s CMD ["/opt/penstock/bin/python", "-c", \
    "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8080/healthz', timeout=4)"]
ENTRYPOINT ["/opt/penstock/bin/penstock"]
CMD ["serve", "--rtmp", ":1935", "--http", ":8080", "--data", "/data", "--workers", "auto"]
