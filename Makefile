# Two commands:  make demo   sets up this machine and measures it against a Linux guest
#                make test   sets up and passes the tests
.PHONY: demo test test-fast lint lock schema benchmark truth aa wheel pictures

LABCTL = $(CURDIR)/.venv/bin/labctl

demo:
	@tools/setup run
	@mkdir -p demo
	@cd demo && { [ -f lab.yaml ] || $(LABCTL) init; }
	@cd demo && $(LABCTL) up metal linux
	@cd demo && $(LABCTL) sweep kqtest --targets metal,linux --rounds 3
	@cd demo && $(LABCTL) report
	@echo "The guest goes on running. In demo/: $(LABCTL) status; when you are done: $(LABCTL) down" >&2

test:
	@tools/setup test
	@$(MAKE) --no-print-directory lint
	.venv/bin/python -m pytest -m "not guest and not slow" -n 3 --dist loadfile
	.venv/bin/python -m pytest -m "guest or slow"

# Under two minutes: no guest, no whole deployment, no killed sweep, no browser, no simulation study.
test-fast:
	@tools/setup test
	.venv/bin/python -m pytest -m "not guest and not slow" -n 3 --dist loadfile

lint:
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy

# Pins every dependency by hash; no download addresses are written.
lock:
	.venv/bin/pip-compile -q --extra dev --generate-hashes --allow-unsafe --strip-extras \
	    --no-emit-index-url --no-emit-find-links --no-emit-trusted-host --no-emit-options \
	    --no-header --output-file requirements.lock pyproject.toml

# What labctl report --json prints, as a JSON Schema.
schema:
	.venv/bin/python -c "from labctl.report.model import json_schema; print(json_schema())" \
	    >docs/report.schema.json

benchmark:
	@tools/setup run
	.venv/bin/python benchmarks/cell_overhead.py
	.venv/bin/python benchmarks/effects_speed.py
	.venv/bin/python benchmarks/eptest_cost.py
	.venv/bin/python benchmarks/report_speed.py

# Are the statistics true? Simulated experiments; the tables go into docs/method.md and sweeps.md.
truth:
	@tools/setup run
	.venv/bin/python benchmarks/truth.py --write docs/method.md
	.venv/bin/python benchmarks/adaptive.py --write docs/sweeps.md

# Is this machine called different from itself? Some minutes of measuring; a row in docs/method.md.
aa:
	@tools/setup run
	.venv/bin/python benchmarks/aa.py

# The README's pictures, of the page of a run: the demo's latest unless RUN names another.
pictures:
	@tools/setup test
	.venv/bin/python tools/pictures.py $(or $(RUN),$(lastword $(sort $(wildcard demo/results/*-kqtest))))

wheel:
	.venv/bin/python -m build --no-isolation --wheel
