# Five targets. Each does all its own set-up in .venv; none touches anything outside this folder.
VENV ?= .venv
PYTHON ?= python3
BIN = $(VENV)/bin

.PHONY: install check test bench demo

install: $(VENV)/.dev

check: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# One worker more than the machines of CI have cores: tests wait for half of their time.
# A machine that stalls is no defect: five tests may have a second try, and their first is shown.
SECOND_TRY = --reruns 1 --max-suite-reruns 5 --rerun-show-tracebacks

test: $(VENV)/.dev
	$(BIN)/python -m pytest -n 3 --dist loadgroup $(SECOND_TRY) $(ARGS)

bench: $(VENV)/.dev
	$(BIN)/python -m benchmarks $(ARGS)

demo: $(VENV)/.demo
	@$(BIN)/python examples/demo.py

# A stamp per set of extras: made anew when pyproject.toml or a source in C changes.
NATIVE = src/trackside/curves/scan.c src/trackside/capture/taking/reduce.c
$(VENV)/.%: pyproject.toml $(NATIVE)
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[$*]'
	@touch $@
