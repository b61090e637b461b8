# Everything runs in .venv, made on first use from pyproject.toml and the pins in constraints.txt.

PYTHON ?= python3
WORKERS ?= 2
ARGS ?=

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help install demo docs tables gallery test test-long test-ray test-browser test-docs test-package fuzz lint format bench bench-docs clean distclean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@printf '\nVariables: PYTHON=%s WORKERS=%s (test processes) ARGS= (more arguments for the command)\n' \
		'$(PYTHON)' '$(WORKERS)'

install: $(STAMP) ## Make .venv with everything for development

demo: $(STAMP) ## Compare the aggregators on handwritten digits
	$(BIN)/meanmax compare --data digits --aggr lp,softmax --budget 6 --splits 8 --out demo-report --tsne $(ARGS)

# Everything the site needs is in it: neither building nor viewing takes a network.
SPHINX := $(BIN)/python -m sphinx -q -n -W --keep-going -b html docs
docs: $(VENV)/.installed-docs ## Build the site in docs/_build/html; a warning is an error
	$(SPHINX) docs/_build/html
	@printf 'open docs/_build/html/index.html\n'

tables: $(STAMP) ## Write docs/tables.md, and the tables of README.md and the site, from the committed results
	{ printf '# Tables\n\nMade by `make tables` from [the rows](../results/rows.jsonl). '; \
	printf 'What they say is in [reproduction.md](reproduction.md).\n'; \
	for what in "table2" "table3" "table4 --data ppi-go" "ablation --splits 5"; do \
	printf '\n'; $(BIN)/meanmax reproduce $$what --no-run --markdown --store results/rows.jsonl || exit 1; \
	done; } > docs/tables.md.new
	mv docs/tables.md.new docs/tables.md
	$(BIN)/python docs/generated.py

# Exported rows hold no embeddings and no parameters by epoch: those pictures need STORE=folder-of-runs.
STORE ?= results/rows.jsonl
gallery: $(STAMP) ## Draw docs/figures, what the runs of STORE allow
	$(BIN)/meanmax figure all --store '$(STORE)' --out docs/figures --format png --dpi 110
	@# Thousands of points make large files; where there are no embeddings, none is drawn.
	-test ! -d '$(STORE)' || $(BIN)/meanmax figure tsne --store '$(STORE)' --out docs/figures --format png --dpi 85
	rm docs/figures/path.png
	$(BIN)/python examples/path.py

# Workers keep two threads each, since one thread would hide races; PyTorch's waiting threads sleep, not spin.
# First the library's tests, with all imports of packages that only extras bring blocked, then the rest.
PYTEST := OMP_WAIT_POLICY=passive $(BIN)/python -m pytest -p tests.without_extras -n $(WORKERS)
test: $(STAMP) ## Run the tests and the doctests
	@failed=0; for part in library rest; do \
	printf '==> tests: %s\n' $$part; $(PYTEST) --part $$part $(MARKED) $(ARGS) || failed=1; \
	done; exit $$failed

test-long: MARKED := -m "not ray and not browser"
test-long: test ## Run the tests that take minutes as well

test-ray: $(VENV)/.installed-ray ## Run the tests on a Ray cluster, after installing Ray into .venv
	$(BIN)/python -m pytest -m ray $(ARGS) tests/ray

test-browser: $(VENV)/.installed-browser ## Try the report page in Chromium, which has to be there
	$(BIN)/python -m pytest -m browser $(ARGS) tests/browser

test-docs: $(VENV)/.installed-docs ## Build the site from nothing and run the notebooks
	$(SPHINX) -E docs/_build/html
	OMP_WAIT_POLICY=passive $(BIN)/python docs/notebooks/run.py $(ARGS)

test-package: $(STAMP) ## Build sdist and wheel, check them, try the wheel without extras (needs an index)
	$(BIN)/python tests/package/check_package.py

fuzz: $(STAMP) ## Try random input until stopped, or ARGS="--minutes 10"; failures lie in .fuzz
	OMP_WAIT_POLICY=passive $(BIN)/python -m tests.fuzz $(ARGS)

lint: $(STAMP) ## Check style, format and types
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy src

format: $(STAMP) ## Repair what ruff can repair
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

bench: $(STAMP) ## Time the aggregators beside PyG's
	$(BIN)/meanmax bench $(ARGS)

# Half an hour on a machine that does nothing else. What fails or is left out keeps its stored result.
BENCHES ?= small layers accelerate bench
bench-docs: $(STAMP) ## Measure the speed that README and site show, and write their tables
	for what in $(BENCHES); do \
	$(BIN)/meanmax bench $$(test $$what = bench || printf -- "--$$what") --out bench-results $(ARGS) || exit 1; \
	mkdir -p results/bench && cp bench-results/$$what.json results/bench/ || exit 1; done
	$(BIN)/python docs/generated.py

clean: ## Remove caches (numba's compiled kernels too), builds and results
	find src tests examples -type d -name __pycache__ -prune -exec rm -rf {} +
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis .fuzz build dist bench-results demo-report docs/_build

distclean: clean ## Remove .venv as well
	rm -rf $(VENV)

# The stamp goes first and comes back last, so that an install broken off halfway is done again.
$(STAMP): pyproject.toml constraints.txt
	@rm -f $@
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "$(PYTHON) is Python %d.%d, but \
	the pins need 3.11 or newer: make PYTHON=python3.11" % sys.version_info[:2])'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -c constraints.txt -e '.[dev]' >&2
	@touch $@

$(VENV)/.installed-ray: $(STAMP)
	@rm -f $@
	$(BIN)/python -m pip install -c constraints.txt -e '.[ray]' >&2
	@touch $@

$(VENV)/.installed-docs: $(STAMP)
	@rm -f $@
	$(BIN)/python -m pip install -c constraints.txt -e '.[docs]' >&2
	@touch $@

# The driver alone: the browser is the system's, none is downloaded.
$(VENV)/.installed-browser: $(STAMP)
	@rm -f $@
	$(BIN)/python -m pip install -c constraints.txt -e '.[browser]' >&2
	@touch $@
