# Each target does its own set-up in .venv; none touches anything outside this folder.
VENV ?= .venv
PYTHON ?= python3
BIN = $(VENV)/bin

# Tests start thousands of interpreters: compile each module once, whatever the caller's environment says.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: install check page test coverage nightly bench drill zoo demo docs release

install: $(VENV)/.dev

check: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python build_page.py check
	$(BIN)/python build_page.py size

# The page of web/, into src/trackside/page/static; installing builds it, too. Nothing is done if it is up to date.
page: $(VENV)/.dev
	$(BIN)/python build_page.py

# One worker more than the machines of CI have cores: tests wait for half of their time.
test: $(VENV)/.dev
	$(BIN)/python -m pytest -n 3 --dist loadgroup $(ARGS)

# Branch coverage with all subprocesses, too long for CI. ARGS=tests/texts INCLUDE='src/trackside/texts/*' takes a part.
coverage: $(VENV)/.dev
	INCLUDE='$(INCLUDE)' .ci/coverage $(BIN) $(ARGS)

# The tests that CI has no time for. Then the fuzzers and the sanitizers for longer, by another seed each time; it is
# printed, and TRACKSIDE_FUZZ_SEED=SEED:ROUND plays one round again.
FUZZ_FACTOR = 200
FUZZ_SEED := $(shell date +%s)

nightly: $(VENV)/.dev
	$(if $(ARGS),,$(BIN)/python -m pytest -n 2 --dist loadgroup -m nightly)
	@echo "TRACKSIDE_FUZZ_SEED=$${TRACKSIDE_FUZZ_SEED:-$(FUZZ_SEED)}"
	TRACKSIDE_FUZZ_FACTOR=$(FUZZ_FACTOR) TRACKSIDE_FUZZ_SEED=$${TRACKSIDE_FUZZ_SEED:-$(FUZZ_SEED)} \
		$(BIN)/python -m pytest -n 2 --timeout 0 tests/fuzz $(ARGS)
	$(if $(ARGS),,.ci/tensorflow $(BIN)/python)
	$(if $(ARGS),,.ci/finetuning)
	$(if $(ARGS),,.venv-finetuning/bin/python -m benchmarks finetuning_libraries)
	$(if $(ARGS),,TRACKSIDE_REQUIRE=tensorflow $(BIN)/python -m pytest tests/e2e/test_tensorflow.py)

bench: $(VENV)/.dev
	$(BIN)/python -m benchmarks $(ARGS)

# Faults put into a running installation; ARGS="--part ci" takes five minutes, ARGS="--case 5" one case.
drill: $(VENV)/.dev
	$(BIN)/python -m benchmarks.drill $(ARGS)

# The rules on training scripts, broken and healthy. ARGS=--quick takes five scripts.
zoo: $(VENV)/.dev
	$(BIN)/python -m zoo $(ARGS)

demo: $(VENV)/.demo
	@$(BIN)/python examples/demo.py

# An sdist, wheels, checksums and an SBOM in dist/, each installed and tried with two Pythons; ARGS=--without-demo saves 200 MB.
release:
	.ci/release $(ARGS)

# The site of docs/, in build/site; a link, anchor or page that is missing fails.
docs: $(VENV)/.dev
	$(BIN)/python -m mkdocs build --strict --quiet

# Pinned with hashes, so that a release of somebody else's breaks nothing here; `make install PINS=` takes the newest.
PINS = requirements/dev.txt

# Stamps: an environment is brought up to date when what it was made of has changed.
NATIVE = src/trackside/curves/scan.c src/trackside/capture/copying/reduce.c
# Modules are compiled when they are first imported: most of those of torch and its like never are.
$(VENV)/.dev: pyproject.toml $(NATIVE) $(PINS)
	@$(MAKE_VENV)
	$(if $(PINS),.ci/install $(VENV) $(PINS) '.[dev]' --no-compile,$(PIP) -e '.[dev]')
	@touch $@

$(VENV)/.demo: pyproject.toml $(NATIVE)
	@$(MAKE_VENV)
	$(PIP) -e '.[demo]'
	@touch $@

PIP = $(BIN)/python -m pip install --quiet --disable-pip-version-check
MAKE_VENV = test -x $(BIN)/pip || .ci/venv $(PYTHON) $(VENV)
