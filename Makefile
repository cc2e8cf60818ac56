# A wrapper for those who type make; every target is one line that can be typed instead.
.PHONY: demo test bench peer fuzz format docs clean

demo:
	./demo.sh
test:
	./test.sh
bench:
	cmake --preset release && cmake --build --preset release && ./scripts/bench.sh
peer:
	./scripts/peer.sh
fuzz:
	./scripts/fuzz.sh
format:
	git ls-files '*.h' '*.cc' | xargs clang-format -i
docs:
	.venv/bin/python scripts/docs.py
clean:
	rm -rf build
