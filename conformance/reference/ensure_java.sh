#!/bin/sh
# Brings Java and Maven for the tests that compare with Apache Kafka, kcat for those of clients and strace for those of
# crashes, where apt may be used. Elsewhere it says in one line what is missing and succeeds: those tests are then
# skipped with that reason.
set -eu

absent=""
command -v java >/dev/null || absent="java"
command -v mvn >/dev/null || absent="${absent:+$absent and }mvn"
command -v kcat >/dev/null || command -v kafkacat >/dev/null || absent="${absent:+$absent and }kcat"
command -v strace >/dev/null || absent="${absent:+$absent and }strace"
[ -n "$absent" ] || exit 0

if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq || true
    # default-jdk-headless is 17 or later on every Debian and Ubuntu that has Python 3.11.
    if apt-get install -y -qq --no-install-recommends default-jdk-headless maven kcat strace >/dev/null; then
        exit 0
    fi
fi
echo "Missing: $absent (of a JDK 17 or later, Maven, kcat and strace). The tests that need them will be skipped."
