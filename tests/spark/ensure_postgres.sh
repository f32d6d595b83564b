#!/bin/sh
# Installs PostgreSQL for the recipes' tests, where apt can; elsewhere they are skipped.
ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 && exit 0
command -v initdb >/dev/null 2>&1 && exit 0
if command -v apt-get >/dev/null 2>&1 && [ "$(id -u)" = 0 ]; then

	apt-get install --yes --quiet postgresql >/dev/null && exit 0
fi
echo "PostgreSQL is missing: the tests of docs/recipes/kafka_and_postgres.py are skipped" >&2
exit 0
