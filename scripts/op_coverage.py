"""docs/coverage.md: every operation and every primitive of JAX's kernels, whether and how it runs on each machine, and the test that shows it.

What runs, what a machine's compiler lacks, and fidelity come from docs/operations.csv, which `pallasim_op_support` writes from the tables of
lowerings and rules; links from the tests' text, and what JAX has where from docs/primitives.csv.
"""

import csv
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "coverage.md"
# The column of operations.csv and of a primitive's machines -> what readers call it. "sparsecore" has TensorCores' rules, by another list of JAX's.
MACHINES = {"generic": "generic", "tpu": "TensorCore", "sparsecore": "SparseCore", "triton": "Triton", "mosaic_gpu": "Mosaic GPU"}
# Bound before the plan is made, or a part of other operations.
STEPS = {"dim_value", "yield"}
# Primitives that are no operation (column `operation` of primitives.csv) -> what becomes of them.
NO_OPERATION = {
    "body": "inlined", "steps": "as its steps", "operand": "is its operand", "chosen": "chosen at capture", "launch": "is a launch", "none": "inside JAX's interpreter only",
}
# Operations that JAX has on a machine and we refuse by name, with the reason.
_PEERS = "several GPUs"
EXCUSED = {
    "extern": "a body in Python, or a linear type of XLA's that its CPU backend does not run",
    "gpu_sem_signal_multicast": _PEERS, "gpu_sem_signal_parallel": _PEERS, "multimem_load_reduce": _PEERS, "multimem_store": _PEERS,
    "griddep_wait": "launches that overlap", "griddep_launch_dependents": "launches that overlap",
    "try_cluster_cancel": "clusters that take over another's work", "query_cluster_cancel": "clusters that take over another's work",
}
# Operations that no primitive is named after -> the machines whose kernels have them; what is neither here nor there may be made on every machine.
MADE = {"masked_store": "generic tpu sparsecore triton", "wgmma_ref": "mosaic_gpu", "ptx": "mosaic_gpu", "spawn": "mosaic_gpu"}
# Operations that Python tests run without naming them.
TESTED = {
    "tests/python/test_refs.py": "prng_seed prng_random_bits prng_join prng_split random_wrap matmul_push_rhs matmul_acc_lhs matmul_pop view",
    "tests/python/test_array_ops.py": "iota_2x32",
    "tests/python/test_debug.py": "debug_print debug_callback",
    "tests/python/test_grid_features.py": "check",
    "tests/python/test_sparsecore.py": "parallel_loop sc_barrier",
    "tests/python/test_hopper_cluster.py": "gpu_atomic_store async_store_smem ptx",
    "tests/python/test_blackwell.py": "tcgen05_mma tcgen05_commit_arrive async_load_tmem async_store_tmem wait_load_tmem commit_tmem async_copy_smem_to_tmem "
                                     "async_copy_scales_to_tmem async_copy_sparse_metadata_to_tmem",
    "tests/python/test_hopper_semaphores.py": "get_global gpu_sem_signal gpu_sem_wait barrier_test",
    "tests/python/test_peers.py": "multimem_store multimem_load_reduce gpu_sem_signal_multicast gpu_sem_signal_parallel try_cluster_cancel query_cluster_cancel",
    "tests/interp/waiting_test.cc": "barrier_wait",
    "tests/interp/bulk_test.cc": "commit_group commit_smem",
}
# What a Python test calls, where it has another name.
CALLED = {
    "atomic_cas": "atomic_cas", "debug_barrier": "debug_barrier", "inline_asm": "elementwise_inline_asm", "sem_read": "semaphore_read",
    "get_barrier_semaphore": "get_barrier_semaphore", "select_ref": "select_ref", "dma_start": "async_copy", "dma_wait": "async_copy",
    "num_programs": "num_programs",
}
# Operations that run and that no test names. None may be added.
UNTESTED: set[str] = set()


def operations():
    """The rows of docs/operations.csv, in the order of the op table."""
    with (ROOT / "docs" / "operations.csv").open() as file:
        return list(csv.DictReader(file))


def tests():
    """Operation name -> path of a test that runs it."""
    python = ROOT / "tests" / "python"
    found = {n: "tests/python/test_ops.py" for n in re.findall(r'"(\w+)": (?:E|_approximate)\(', (python / "op_cases.py").read_text())}
    arrays = (python / "array_cases.py").read_text()
    for name in re.findall(r'"(\w+)": (?:Fold)?\(', arrays) + re.findall(r'\bA\("(\w+)"', arrays):
        found.setdefault(name, "tests/python/test_array_ops.py")
    for path, names in TESTED.items():
        if (ROOT / path).exists():
            found |= {n: path for n in names.split() if n not in found}
    files = [*sorted((ROOT / "tests" / "pass").glob("*.psir")), *sorted((ROOT / "tests" / "engine").glob("*/*.psir")),
             *sorted((ROOT / "tests" / "interp").glob("*.cc")), *sorted((ROOT / "tests" / "fail" / "run").glob("*.psir"))]
    for path in files:
        for name in set(re.findall(r"^[^/\n]*?(?:= |^\s+)(\w+)(?= [%{:(])", path.read_text(), re.M)):
            found.setdefault(name, str(path.relative_to(ROOT)))
    # Spellings and reports name operations without showing what they do.
    for path in sorted((ROOT / "tests" / "python").glob("test_*.py"), key=lambda p: (p.name in ("test_compat.py", "test_lines.py"), p)):
        words = set(re.findall(r"\b(\w+)\b", path.read_text()))
        for name, called in CALLED.items():
            if called in words:
                found.setdefault(name, str(path.relative_to(ROOT)))
    return found


def rows():
    """(name, family, support per machine, test or "") per operation. Where JAX has primitives for an operation, but none of them on a machine, that
    machine's entry is empty; what no primitive names is made on the way, and may be anywhere."""
    shown, has = tests(), {name: set(machines.split()) for name, machines in MADE.items()}
    for row in listed():
        has.setdefault(row["operation"], set()).update(row["machines"].split())
    for op in operations():
        name = op["operation"]
        if name in STEPS:
            cells = ["as its steps"] * len(MACHINES)
        elif op["runs"] == "yes":
            runs = "exact" if op["fidelity"] == "exact" else "approximate"
            there = has.get(name, MACHINES)
            cells = ["refused" if op.get(m) == "no" else runs if m in there else "" for m in MACHINES]
        else:
            cells = ["–"] * len(MACHINES)
        yield name, op["family"], cells, shown.get(name, "")


def listed():
    """The rows of docs/primitives.csv."""
    with (ROOT / "docs" / "primitives.csv").open() as file:
        return list(csv.DictReader(file))


def primitives():
    """(primitive, operation, JAX's machines, support per machine, test or "") per primitive of JAX that a kernel may have."""
    table = {name: (cells, test) for name, _, cells, test in rows()}
    for row in listed():
        word = NO_OPERATION.get(row["operation"])
        cells, test = ([word] * len(MACHINES), "") if word else table[row["operation"]]
        yield row["primitive"], row["operation"], row["machines"].split(), cells, test


INTRODUCTION = """# Coverage

Generated by `scripts/docs.py` from the op table, the compiler's tables and the tests; do not edit. What an operation means is in [ops.md](ops.md).
One column per machine: `generic`, the two kinds of cores of a TPU, and a GPU by way of Triton or of Mosaic GPU. The name of an operation leads to a
test that runs it.

| entry | means |
|---|---|
| exact | it runs; the result is bit for bit what the operation means |
| approximate | it runs; the result is within the bound of [numerics.md](numerics.md) |
| as its steps, inlined, ... | it is captured as other operations |
| refused | that machine's compiler has none ([PS-TPU-003](diagnostics/PS-TPU-003.md), [PS-TRI-003](diagnostics/PS-TRI-003.md)); with `rules=False` it runs as on `generic` |
| – | it is refused by name on every machine ([PS-UNSUP-001](diagnostics/PS-UNSUP-001.md)) |
| nothing | JAX has no such primitive on that machine |
"""


def runs(cells):
    return "–" not in cells


def page():
    table, machines = list(rows()), " | ".join(MACHINES.values())
    out = [INTRODUCTION, f"\n{sum(runs(c) for _, _, c, _ in table)} of {len(table)} operations run; the others are refused by name.\n"]
    for family in dict.fromkeys(f for _, f, _, _ in table):
        out.append(f"\n## {family}\n\n| operation | {machines} |\n|---|{'---|' * len(MACHINES)}\n")
        out += [f"| {_linked(name, cells, test)} | {' | '.join(cells)} |\n" for name, f, cells, test in table if f == family]
    primitive = list(primitives())
    counts = ", ".join(f"{sum(m in there for _, _, there, *_ in primitive)} on {shown}" for m, shown in MACHINES.items())
    out.append(f"\n## Primitives of JAX\n\nWhat a Pallas kernel may hold in JAX 0.10.2: {counts}.\n"
               f"A primitive that becomes an operation of another name says so. A name that JAX uses twice has two rows.\n\n"
               f"| primitive | {machines} |\n|---|{'---|' * len(MACHINES)}\n")
    for name, op, there, cells, test in primitive:
        shown = [c if m in there else "" for m, c in zip(MACHINES, cells)]
        named = f"`{name}`" if op in NO_OPERATION else _linked(name, cells, test) if op == name else f"`{name}` as {_linked(op, cells, test)}"
        out.append(f"| {named} | {' | '.join(shown)} |\n")
    return "".join(out)


def _linked(name, cells, test):
    return f"[`{name}`](../{test})" if test and runs(cells) else f"`{name}`"


def problems():
    """Operations that run without a test, tested ones that are still listed as untested, and what JAX has and we lack."""
    for name, op, machines, cells, test in primitives():
        lacking = [m for m, c in zip(MACHINES, cells) if m in machines and c in ("–", "refused")]
        if lacking and op not in EXCUSED:
            yield f"primitive {name}: JAX has it on {', '.join(lacking)}, operation {op} is refused there (docs/primitives.csv)"
        if not lacking and not test and op not in NO_OPERATION and op not in STEPS:
            yield f"primitive {name}: no test shows operation {op}"
    missing = {name for name, _, cells, test in rows() if cells[0] not in ("–", "as its steps") and runs(cells) and not test}
    for name in sorted(missing - UNTESTED):
        yield f"operation {name} runs but no test shows it (scripts/op_coverage.py)"
    for name in sorted(UNTESTED - missing):
        yield f"operation {name} has a test: take it off the list in scripts/op_coverage.py"
