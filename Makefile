# make demo      analyse the shipped capture and write a report
# make check     while working: lint, types, and the tests that need no more than this machine has; installs nothing
# make test      lint, types, and tests of every part on real input
# make prove     all other tests: guests, sanitizers, fuzzing, every notebook and page, the corpus
# make probes    the programs that run on devices, into build/probes/
# make wheels    the packages androstep and androstep-probes, into build/wheels/; no compiler is needed to install them
# make notebook  JupyterLab on notebooks/
# make figures   the figures of the papers, into build/figures/, and small ones for docs/figures.md
# make docs      the site, into build/site/
# make truth     docs/truth.md: every filesystem recorded and judged; needs root, takes two hours
# make benchmarks  one table: what, ours, peer, ratio; recording needs root, peers that are missing are named
# make fuzz      libFuzzer on every decoder, FUZZ_SECONDS each; what breaks one is kept in build/fuzz/found/
# make fresh     demo and test on new machines: Debian 12, on disk and in memory, and 13 (root; FRESH_RUN, FRESH_ON)
# make lint | lock | tables | clean
#
# Each needs only make, Python 3.11 or newer and a package index; tools/setup gets the rest.

BIN := .venv/bin
DEMO := build/demo
NATIVE := androstep_analysis/native
C_FILES := $(wildcard $(NATIVE)/*/*.[ch] $(NATIVE)/*/*/*.[ch] probes/*/*.[ch] probes/*/*/*.[ch] tests/harness/*.[ch] tests/fuzz/*.[ch])

# debugfs and mke2fs live in sbin, which Debian leaves out of a user's PATH.
export PATH := $(PATH):/usr/sbin:/sbin

FUZZ_SECONDS := 3600

# Without byte code every process of the tests would compile every module again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo check test prove lint ruff mypy clang-format cppcheck pytest wheels fuzz benchmarks notebook figures docs truth fresh lock tables setup clean
.DELETE_ON_ERROR:
.DEFAULT_GOAL := demo

# Before the rules: make expands the prerequisites of a rule when it reads the rule.
include probes/probes.mk

demo: setup
	@mkdir -p $(DEMO)
	$(BIN)/androstep summary datasets/demo
	$(BIN)/androstep report datasets/demo -o $(DEMO)/report.html --figures $(DEMO)/figures
	@echo 'The report is $(DEMO)/report.html, the figures are in $(DEMO)/figures/.'

check: export DEBIAN_PACKAGES := no
check: lint probes-tests
	$(BIN)/python -m pytest -n 2 -m unit

test: lint pytest

# The four run side by side; the output of each stays together.
lint: setup
	@$(MAKE) --no-print-directory --output-sync --jobs=2 mypy cppcheck ruff clang-format

ruff:
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

mypy:
	@$(BIN)/mypy

clang-format:
	@$(BIN)/clang-format --style=file:probes/.clang-format --dry-run -Werror $(C_FILES)

cppcheck:
	@$(BIN)/cppcheck --quiet --std=c11 -Iprobes -I$(NATIVE) --enable=warning,performance,portability --inline-suppr \
	  --error-exitcode=1 $(C_FILES)

# A thread of polars for each process: four processes keep two processors busy, as tests also wait.
pytest: export POLARS_MAX_THREADS := 1
pytest: setup build/.test-programs probes-tests
	$(BIN)/python -m pytest -n 4 --dist loadgroup -m "not prove"

# tests/house/test_sanitized.py runs those that are left out here, in a library with the sanitizers.
prove: setup build/.prove-programs probes-prove
	$(BIN)/python -m pytest -n 3 --dist loadgroup -m "prove and (not sanitized or browser or qemu or root)"

fuzz: setup build/.test-programs
	PYTHONPATH=tests $(BIN)/python tests/fuzz/session.py $(FUZZ_SECONDS)

# Jupyter listens on localhost and asks for a token, also when root.
notebook: setup
	$(BIN)/jupyter lab $(if $(filter 0,$(shell id -u)),--allow-root) notebooks

figures: setup
	$(BIN)/python tools/figures.py --pictures docs/pictures/figures

docs: setup probes-native
	$(BIN)/python tools/run_notebooks.py
	$(BIN)/python -m sphinx -q -W --keep-going -E -b html -c docs . build/site
	@echo 'The site is build/site/index.html.'

truth: setup build/.test-programs probes-prove
	@mkdir -p build/truth
	$(BIN)/python tests/gauntlet > build/truth/gauntlet.md
	$(BIN)/python tests/harness/table.py

fresh:
	tools/fresh

setup: .venv/.ready $(NATIVE)/libandrostep.so

# Setting up makes it; from then on it follows its sources.
$(NATIVE)/libandrostep.so: $(wildcard $(NATIVE)/*/*.[ch] $(NATIVE)/*/*/*.[ch]) tools/build_native.py | .venv/.ready
	@$(BIN)/python tools/build_native.py

.venv/.ready: tools/setup requirements.lock pyproject.toml
	@sh tools/setup python
	@touch $@

# One after the other: each may install packages.
build/.prove-programs: tools/setup | build/.test-programs
	@sh tools/setup prove-programs
	@touch $@

build/.test-programs: tools/setup | build/.compiler
	@sh tools/setup test-programs
	@touch $@

build/.compiler: tools/setup | setup
	@sh tools/setup compiler
	@touch $@

# Keeps the pins that still fit; with UPGRADE=--upgrade takes the newest that pyproject's exclude-newer allows.
lock: setup
	UV_SYSTEM_CERTS=1 $(BIN)/uv pip compile --quiet $(UPGRADE) --universal --generate-hashes --group dev --all-extras \
	  --no-emit-package androstep-probes \
	  pyproject.toml -o requirements.lock

tables: setup
	$(BIN)/python tools/owner_rules.py schemas/definitions.toml
	$(BIN)/python tools/tables_md.py docs
	$(BIN)/python tools/predictions.py docs/predictions.md
	$(BIN)/python tools/figures.py --list docs/figures.md

benchmarks: setup probes-native
	@$(BIN)/python -m benchmarks

wheels: setup probes-devices
	@rm -rf build/wheel build/wheels
	@mkdir -p $(TARGETS:%=build/wheel/%)
	@for target in $(TARGETS); do cp $(PROBES:%=$(PROBES_OUT)/$$target/%) build/wheel/$$target/ || exit; done
	@$(BIN)/python -m hatchling build -t wheel -d build/wheels
	@cd probes/wheel && $(CURDIR)/$(BIN)/python -m hatchling build -t wheel -d $(CURDIR)/build/wheels

clean:
	rm -rf build .venv $(NATIVE)/libandrostep.so* .mypy_cache .pytest_cache .ruff_cache .hypothesis
