# A wrapper for those who type make; every target is one line that can be typed instead. `peer` needs the folder of the
# suites' harness: make peer HARNESS=DIR, with PEER_TESTS set.
.PHONY: demo test bench peer fuzz format docs site wheel clean

demo:
	./demo.sh
test:
	./test.sh
bench:
	./scripts/bench.sh
peer:
	.venv/bin/python tests/peer/site_census.py build/peer --harness $(HARNESS)
fuzz:
	./scripts/fuzz.sh
format:
	git ls-files '*.h' '*.cc' | xargs clang-format -i
docs:
	.venv/bin/python scripts/docs.py
site:
	.venv/bin/python scripts/make_site.py
wheel:
	./scripts/wheel.sh
clean:
	rm -rf build
