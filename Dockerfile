# A broker in one small image:  docker build -t oncelog .  &&  docker run -p 127.0.0.1:9092:9092 oncelog
# Settings are Kafka's, as environment variables in the names that the images of apache, confluentinc and bitnami use.

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
    && python3 -m pip --python /opt/oncelog/bin/python install --no-cache-dir --constraint constraints.txt /wheels/*.whl

FROM python:3.11-slim-bookworm
COPY docker /tmp/docker
# Start scripts for other images edit theirs, and the broker writes into their volumes, hence the owner.
RUN useradd --uid 10001 --user-group --home-dir /var/lib/oncelog --no-create-home --shell /usr/sbin/nologin oncelog \
    && install --directory --mode 0700 --owner oncelog --group oncelog /var/lib/oncelog \
    && /tmp/docker/install "" \
    && rm -r /tmp/docker \
    && chown --recursive oncelog:oncelog /etc/kafka /etc/confluent /var/lib/kafka /bitnami
COPY --from=build /opt/oncelog /opt/oncelog
ENV PATH=/opt/oncelog/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    ONCELOG_ADDRESS_FILE=/tmp/oncelog.address
USER oncelog
WORKDIR /var/lib/oncelog
VOLUME /var/lib/oncelog
EXPOSE 9092
# The broker writes where it listens into the file, whatever its settings are.
HEALTHCHECK --interval=10s --timeout=6s --start-period=10s \
    CMD oncelog ping --quiet --bootstrap "$(cat "$ONCELOG_ADDRESS_FILE" || echo localhost:9092)" || exit 1
ENTRYPOINT ["oncelog-entrypoint"]
