# A wrapper for those who type make; every target is one line that can be typed instead. `peer` needs the folder of the
# suites' harness: make peer HARNESS=DIR, with PEER_TESTS set.
.PHONY: demo test bench peer fuzz format docs wheel clean

demo:
	./demo.sh
test:
	./test.sh
bench:
	cmake --preset release && cmake --build --preset release && for b in $$(find build/release/bench -type f -executable -name '*bench*'); do $$b; done
peer:
	.venv/bin/python tests/peer/site_census.py build/peer --harness $(HARNESS)
fuzz:
	./scripts/fuzz.sh
format:
	git ls-files '*.h' '*.cc' | xargs clang-format -i
docs:
	.venv/bin/python scripts/docs.py
wheel:
	.venv/bin/python -m pip wheel . --no-deps -w build/wheels
clean:
	rm -rf build
