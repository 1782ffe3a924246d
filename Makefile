# Three commands do everything on a fresh machine with Python 3.11 or newer:
#   make demo   installs solar into .venv/demo and runs its main job, on generated photos and on
#               those of a folder (make demo PHOTOS=~/Pictures); on a terminal it then opens the web
#               app (SERVE=0 make demo does not, SERVE=1 does so anywhere)
#   make test   installs what the tests need into .venv/test, then lints, type-checks and tests
#   make wheel  builds the sdist, and from it the wheel, into dist/; installs each into an empty
#               environment, also of another Python (make wheel PYTHON=python3.13), and runs it there
# And two for the documentation:
#   make docs         installs what it takes into .venv/docs and builds the site into site/
#   make docs-serve   shows it at http://127.0.0.1:8000/ and builds it again at every change
PYTHON ?= python3
PYTEST_ARGS ?= -n 2 --dist worksteal

DEMO := .venv/demo
TEST := .venv/test
DOCS := .venv/docs
# All that README shows but training.
DEMO_EXTRAS := web
# What the tests use beyond the base install.
TEST_EXTRAS := dev,backbones,dask,export,milvus,parquet,sfm,show,train,web,docs

# Where the wheel is tried out, with nothing but what it brings, and how large it may be.
WHEEL := .venv/wheel
WHEEL_BYTES := 35000000

.PHONY: demo test lint format docs docs-serve wheel clean

# Where nobody sits at a terminal a server would never end: only the command for it is printed.
demo: $(DEMO)/.ready
	@if [ "$${SERVE:-}" = 1 ] || { [ -z "$${SERVE:-}$${CI:-}" ] && [ -t 0 ] && [ -t 1 ]; }; then \
	  set -- --serve; else set --; fi; \
	$(DEMO)/bin/solar demo "$$@" $${PHOTOS:+"$$PHOTOS"}

test: lint
	$(TEST)/bin/python -m pytest $(PYTEST_ARGS)

lint: $(TEST)/.ready
	$(TEST)/bin/ruff check .
	$(TEST)/bin/ruff format --check .
	$(TEST)/bin/mypy

format: $(TEST)/.ready
	$(TEST)/bin/ruff check --fix .
	$(TEST)/bin/ruff format .
	$(TEST)/bin/python tests/support/notebooks.py

# The variable silences an advertisement of mkdocs-material's successor.
docs: $(DOCS)/.ready
	NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs build --strict
	@echo "Open site/index.html, or see it served (search needs that): make docs-serve"

docs-serve: $(DOCS)/.ready
	NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs serve

wheel: $(TEST)/.ready
	rm -rf dist $(WHEEL)
	$(TEST)/bin/python -m build --no-isolation --outdir dist .
	@test "$$(cat dist/*.whl | wc -c)" -le $(WHEEL_BYTES) || { echo "The wheel has more than $(WHEEL_BYTES) bytes." >&2; exit 1; }
	$(PYTHON) -m venv $(WHEEL)
	@set -e; away=$$(mktemp -d); trap 'rm -r "$$away"' EXIT; \
	  for file in dist/*.whl dist/*.tar.gz; do \
	    echo "$$file"; $(WHEEL)/bin/python -m pip uninstall --quiet --yes solar-retrieval 2>/dev/null; \
	    $(WHEEL)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt "$$file"; \
	    for job in --version doctor demo; do (cd "$$away"; echo "solar $$job"; \
	      SOLAR_CACHE="$$away/$$(basename "$$file")" "$(CURDIR)/$(WHEEL)/bin/solar" $$job); done; \
	  done

$(DEMO)/.ready: pyproject.toml constraints.txt Makefile
	$(call install,$(DEMO),.[$(DEMO_EXTRAS)])

$(TEST)/.ready: pyproject.toml constraints.txt Makefile
	$(call install,$(TEST),.[$(TEST_EXTRAS)])

$(DOCS)/.ready: pyproject.toml constraints.txt Makefile
	$(call install,$(DOCS),.[docs])

# $(call install,ENVIRONMENT,REQUIREMENT)
define install
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "solar needs Python 3.11 or newer; name one with: make $(MAKECMDGOALS) PYTHON=/path/to/python3" >&2; exit 2; }
	@echo "Installing solar into $(1)/: 1.3 GB with PyTorch for the CPU, several GB with CUDA, which is what pip takes on Linux"
	@echo "unless PIP_EXTRA_INDEX_URL says otherwise (see README). This may take minutes."
	@$(PYTHON) -m venv $(1)
	@$(1)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '$(2)'
	@touch $(1)/.ready
endef

clean:
	rm -rf .venv build dist site .mypy_cache .ruff_cache .pytest_cache .hypothesis
