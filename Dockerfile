# A broker in one small image:  docker build -t oncelog .  &&  docker run -p 127.0.0.1:9092:9092 oncelog
# Settings are Kafka's, as environment variables in the names that apache/kafka's image uses.

FROM python:3.11-slim-bookworm AS build
RUN apt-get update \
    && apt-get install --yes --no-install-recommends gcc libc6-dev \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY pyproject.toml constraints.txt hatch_build.py README.md LICENSE ./
COPY oncelog oncelog
# The wheel carries the compiled extensions. The environment gets no pip: it is copied as it is, and stays so.
RUN python3 -m pip wheel --no-cache-dir --no-deps --wheel-dir /wheels . \
    && python3 -m venv --without-pip /opt/oncelog \
    && python3 -m pip --python /opt/oncelog/bin/python install --no-cache-dir --constraint constraints.txt /wheels/*.whl google-re2

FROM python:3.11-slim-bookworm
RUN useradd --uid 10001 --user-group --home-dir /var/lib/oncelog --no-create-home --shell /usr/sbin/nologin oncelog \
    && install --directory --mode 0700 --owner oncelog --group oncelog /var/lib/oncelog
COPY --from=build /opt/oncelog /opt/oncelog
ENV PATH=/opt/oncelog/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    KAFKA_LOG_DIRS=/var/lib/oncelog \
    KAFKA_LISTENERS=PLAINTEXT://0.0.0.0:9092 \
    KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://localhost:9092
USER oncelog
WORKDIR /var/lib/oncelog
VOLUME /var/lib/oncelog
EXPOSE 9092
HEALTHCHECK --interval=10s --timeout=6s --start-period=10s CMD ["oncelog", "ping", "--quiet"]
ENTRYPOINT ["oncelog", "serve"]
