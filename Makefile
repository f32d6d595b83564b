# Two commands are enough: `make run` and `make test`. Both set everything up first.
# PYTHON chooses the interpreter (3.11 or later), VENV the virtualenv.

PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
SPARKS ?= 4.0 4.1 4.2 4.3
C_SOURCES := $(wildcard oncelog/protocol/*.h oncelog/protocol/*/*.[ch])
UNTIMED := --timeout=0 -o faulthandler_timeout=0

.DEFAULT_GOAL := help
.PHONY: help setup setup-dev bytecode run test test-all test-spark check format fuzz soak demo pipeline-soak pipeline-measure conformance bench \
	bench-quick clean

help: ## Show this list
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP) bytecode ## Make the virtualenv with the `oncelog` command

setup-dev: $(STAMP)-dev bytecode

# A broker starts twice as fast with it, and Python does not keep it where PYTHONDONTWRITEBYTECODE is set.
bytecode: $(STAMP)
	@$(BIN)/python -m compileall -q oncelog

$(STAMP): pyproject.toml constraints.txt hatch_build.py $(C_SOURCES)
	@test -n "$(PYTHON)" || { echo "oncelog needs Python 3.11 or later: install it, or set PYTHON=/path" >&2; exit 1; }
	@echo "Setting up $(VENV); it takes about half a minute, once."
	@$(PYTHON) -m venv $(VENV) || { echo "python3-venv is missing: apt-get install python3-venv" >&2; exit 1; }
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable .
	@touch $@

$(STAMP)-dev: $(STAMP)
	@echo "Installing what the tests need; it takes about a minute, once."
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $@

$(STAMP)-pipeline: $(STAMP)-dev
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[pipeline]'
	@touch $@

$(STAMP)-bench: $(STAMP)-dev
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[bench]'
	@touch $@

run: setup ## Serve 127.0.0.1:9092 with data in ./data
	@exec $(BIN)/oncelog serve

test: $(STAMP)-pipeline check ## Everything that must hold, in under twenty minutes
	@sh conformance/reference/ensure_java.sh
	@$(BIN)/python -m oncelog.pipeline.archive
	$(BIN)/pytest

test-all: test test-spark soak pipeline-soak fuzz ## The same, every Spark, and the long forms of all: several hours

# Each Spark in an environment of its own. Where Maven lacks its connector, tests that read from Kafka are skipped.
test-spark: $(SPARKS:%=$(VENV)-spark-%/.tested) ## The sink's tests with each Spark from 4.0 to 4.3 (SPARKS="4.1 4.2": some)

.PHONY: $(SPARKS:%=$(VENV)-spark-%/.tested)
$(SPARKS:%=$(VENV)-spark-%/.tested): $(VENV)-spark-%/.tested: $(VENV)-spark-%/.installed
	@sh conformance/reference/ensure_java.sh
	@sh tests/spark/ensure_postgres.sh
	ONCELOG_SPARK_LONG=1 $(VENV)-spark-$*/bin/pytest tests/spark tests/pipeline/test_new_user.py $(UNTIMED)

$(VENV)-spark-%/.installed: $(STAMP) pyproject.toml constraints.txt
	@$(PYTHON) -m venv $(@D)
	@grep -vE '^(pyspark|py4j)==' constraints.txt > $(@D)/constraints.txt
	$(@D)/bin/pip install --quiet --disable-pip-version-check --constraint $(@D)/constraints.txt \
		--editable '.[dev,pipeline]' 'pyspark==$*.*'
	@touch $@

check: setup-dev ## Lint, types and the directions of imports
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

format: setup-dev ## Bring the code into shape
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

fuzz: setup-dev ## Fuzz the decoders, the C code under sanitizers, and a live broker (FUZZ_SECONDS=600)
	ONCELOG_FUZZ_SECONDS=$${FUZZ_SECONDS:-600} $(BIN)/pytest -m fuzz $(UNTIMED)
	ONCELOG_ELEMENTS=100000 $(BIN)/pytest tests/bad_input/test_large_requests.py $(UNTIMED)
	$(BIN)/pytest tests/protocol --hypothesis-profile=fuzz $(UNTIMED)

soak: setup-dev ## The long forms of what kills, delays and repeats: about an hour
	@sh conformance/reference/ensure_java.sh
	ONCELOG_SOAK=1 ONCELOG_KILLS=$${ONCELOG_KILLS:-100} ONCELOG_LATE_ENDS=$${ONCELOG_LATE_ENDS:-10000} \
		ONCELOG_STREAMS_KILLS=$${ONCELOG_STREAMS_KILLS:-30} ONCELOG_STRACE_STRIDE=$${ONCELOG_STRACE_STRIDE:-1} \
		ONCELOG_SOAK_SECONDS=$${ONCELOG_SOAK_SECONDS:-600} \
		$(BIN)/pytest -m soak -p no:randomly $(UNTIMED)

demo: $(STAMP)-pipeline ## Exactly-once through Spark under kills, beside Spark's own sink; prints where the report is
	@sh conformance/reference/ensure_java.sh
	@$(BIN)/python -m oncelog.pipeline demo

pipeline-soak: $(STAMP)-pipeline ## The Spark pipeline killed again and again, on both brokers (PIPELINE_RUNS=30)
	@sh conformance/reference/ensure_java.sh
	ONCELOG_PIPELINE_RUNS=$${PIPELINE_RUNS:-30} ONCELOG_PIPELINE_BROKERS=oncelog,apache \
		$(BIN)/pytest tests/spark tests/pipeline -v -p no:randomly -o faulthandler_timeout=0

pipeline-measure: $(STAMP)-pipeline ## Rows per second of the exactly-once sink beside Spark's own, for docs/spark.md
	@sh conformance/reference/ensure_java.sh
	$(BIN)/python -m oncelog.pipeline measure

# All of it has Spark among its clients; one of the others can do without.
conformance: $(STAMP)-$(if $(filter-out spark,$(CLIENT)),dev,pipeline) ## Compare with Apache Kafka; writes conformance/CARD.md (CLIENT=sarama: one part)
	@sh conformance/reference/ensure_java.sh
	$(BIN)/python -m conformance card $(if $(CLIENT),--client $(CLIENT))

bench: $(STAMP)-bench ## Side by side with Apache Kafka and others; writes bench/RESULTS.md (BENCH_MINUTES=30)
	@sh conformance/reference/ensure_java.sh
	$(BIN)/python -m bench all --minutes $${BENCH_MINUTES:-30} --rounds $${BENCH_ROUNDS:-3}

bench-quick: $(STAMP)-bench ## The same in three minutes, with fewer sizes; writes bench/QUICK.md
	@sh conformance/reference/ensure_java.sh
	$(BIN)/python -m bench quick

clean: ## Remove what make made, but no data
	rm -rf $(VENV) $(VENV)-spark-* .mypy_cache .ruff_cache .pytest_cache .hypothesis dist build
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
