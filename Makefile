# Each target that a person may call carries its help after two hashes.
.DEFAULT_GOAL := help
.PHONY: help run test test-workers coverage setup check bench bench-live bench-pipeline soak fuzz interop smoke-spark smoke-delta lock clean
.DELETE_ON_ERROR:

PYTHON ?= python3
SECONDS ?= 60
MINUTES ?= 10
SEED ?= 1
WORKERS ?= 2
DEBIAN_PACKAGES := ffmpeg nginx-light libnginx-mod-rtmp rtmpdump gcc libc6-dev \
	gstreamer1.0-tools gstreamer1.0-plugins-good gstreamer1.0-plugins-bad chromium fonts-dejavu-core
# Large, so only for `make interop`, which alone runs the tests in EXTENDED_TESTS.
INTEROP_PACKAGES := obs-studio xvfb vlc-bin vlc-plugin-base
EXTENDED_TESTS := tests/interop/extended
# The other Spark that pyproject.toml allows: the lock has the newest one for which delta-spark and Kafka exist.
OTHER_SPARK := 4.3.0
SPARK_TESTS := tests/pipeline/engine tests/pipeline/sources tests/pipeline/test_register_everywhere.py
# Their jars come from Maven Central.
DELTA_TESTS := tests/pipeline/delta_spark
# Which test is of which kind is in tests/conftest.py.
TESTED := --ignore=$(EXTENDED_TESTS) --ignore=$(DELTA_TESTS)
# Whose branch coverage is measured. They compute, and measuring costs as much again, so they run apart from the others.
CORE_TESTS := tests/amf tests/media tests/protocol
COMPUTES := -m computes --numprocesses=2 --dist=loadfile --no-loadscope-reorder
FOUR_AT_A_TIME := --numprocesses=4 --dist=loadfile --no-loadscope-reorder
WAITS := -m waits $(FOUR_AT_A_TIME)
# With a server of our own, whose workers an environment variable counts.
SERVED_TESTS := tests/scenarios tests/interop tests/workers

help: ## print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-14s %s\n", $$1, $$2}' Makefile

run: setup ## set up everything, serve and keep the tables: RTMP on 127.0.0.1:1935, HTTP on 127.0.0.1:8080, ./data
	@.venv/bin/penstock up

test: setup check ## set up everything, run all checks and all tests, with branch coverage of protocol and media
	@# All run, whatever fails in one.
	@status=0; \
	.venv/bin/pytest $(CORE_TESTS) $(COMPUTES) --cov=penstock.protocol --cov=penstock.media || status=1; \
	.venv/bin/pytest $(TESTED) $(CORE_TESTS:%=--ignore=%) $(COMPUTES) || status=1; \
	.venv/bin/pytest $(TESTED) $(WAITS) || status=1; \
	.venv/bin/pytest $(TESTED) -m alone || status=1; \
	PENSTOCK_SERVER_WORKERS=2 .venv/bin/pytest $(TESTED) -m "two_workers and not alone" $(FOUR_AT_A_TIME) || status=1; \
	PENSTOCK_SERVER_WORKERS=2 .venv/bin/pytest $(TESTED) -m "two_workers and alone" || status=1; \
	exit $$status

coverage: setup ## run the tests of one worker and measure branch coverage of everything; below 90 % fails
	@.venv/bin/pytest $(TESTED) $(COMPUTES) --cov --cov-report= --cov-fail-under=0
	@.venv/bin/pytest $(TESTED) $(WAITS) --cov --cov-append --cov-report= --cov-fail-under=0
	@.venv/bin/pytest $(TESTED) -m alone --cov --cov-append

test-workers: setup ## run all scenarios and interop tests with two workers: make test-workers WORKERS=2
	@status=0; \
	PENSTOCK_SERVER_WORKERS=$(WORKERS) .venv/bin/pytest $(TESTED) $(SERVED_TESTS) -m "not alone" $(FOUR_AT_A_TIME) || status=1; \
	PENSTOCK_SERVER_WORKERS=$(WORKERS) .venv/bin/pytest $(TESTED) $(SERVED_TESTS) -m alone || status=1; \
	exit $$status

setup: .venv/.python-packages .venv/.debian-packages .venv/.class-archive ## install what run and test need; no work when it is there

.venv/.python-packages: pyproject.toml constraints.txt scripts/install_python_packages.sh
	@scripts/install_python_packages.sh $(PYTHON) .venv
	@touch $@

# The list of packages is in this file, so the stamp depends on it; it lives in .venv, which must be there first.
.venv/.debian-packages: Makefile scripts/install_debian_packages.sh | .venv/.python-packages
	@scripts/install_debian_packages.sh $(DEBIAN_PACKAGES)
	@touch $@

# Halves the time that Spark takes to start. Nothing needs it, so a failure is only told.
.venv/.class-archive: .venv/.python-packages
	@.venv/bin/python -m penstock.pipeline.engine.class_training || echo "setup: Spark will start slowly, without a class archive"
	@touch $@

check: .venv/.python-packages ## lint, formatting and types
	.venv/bin/ruff check
	.venv/bin/ruff format --check
	.venv/bin/mypy

bench: setup ## measure the protocol core, then the live server beside its peers
	.venv/bin/python -m bench.protocol
	.venv/bin/python -m bench.live

bench-live: setup ## measure the live server alone: make bench-live BENCH=--quick
	.venv/bin/python -m bench.live $(BENCH)

bench-pipeline: setup ## measure the pipeline on a simulated day beside DuckDB: make bench-pipeline BENCH=--quick
	.venv/bin/python -m bench.pipeline $(BENCH)
	.venv/bin/python -m bench.ingest $(filter --quick,$(BENCH))
	.venv/bin/python -m bench.pipeline_flv
	.venv/bin/python -m bench.beside_pipeline

soak: .venv/.python-packages ## ten minutes of coming and going: memory flat, nothing left behind: make soak MINUTES=10
	.venv/bin/python -m bench.soak --minutes $(MINUTES) $(SOAK)

fuzz: .venv/.python-packages ## feed the readers broken input: make fuzz SECONDS=60 SEED=1
	.venv/bin/python -m fuzz --seconds $(SECONDS) --seed $(SEED)

interop: setup ## run the tests against real programs alone, OBS and VLC with them
	@scripts/install_debian_packages.sh $(INTEROP_PACKAGES)
	.venv/bin/pytest tests/interop

smoke-spark: setup ## test sessions, sources and register on the other Spark, in .venv-spark
	@scripts/test_on_spark.sh $(PYTHON) .venv-spark $(OTHER_SPARK) $(SPARK_TESTS)

smoke-delta: setup ## test that Delta's own jars read the same rows, and Spark on an object store; needs Maven Central
	.venv/bin/pytest -rs $(DELTA_TESTS)

lock: ## write constraints.txt anew with the newest versions
	@scripts/lock.sh $(PYTHON)

clean: ## remove .venv, .venv-spark, caches and reports
	rm -rf .venv .venv-spark .coverage .coverage.* .hypothesis .mypy_cache .pytest_cache .ruff_cache build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
