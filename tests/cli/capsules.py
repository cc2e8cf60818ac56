"""Writes the capsules that golden tests run: capsules.py KIND FILE. Plain Python: no NumPy, no JAX.

`good` is one launch of tests/pass/add_vectors.psir; every other kind is that with one thing wrong.
"""

import json
import pathlib
import struct
import sys
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
TIME = 3.2093187e-06  # predicted of sums
X, Y, OUT = "launches/1/x.npy", "launches/1/y.npy", "launches/1/out.npy"


def npy(values, shape=None, descr="<f4"):
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape or (len(values),)}, }}"
    header = header.ljust(117) + "\n"
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header.encode() + struct.pack(f"<{len(values)}f", *values)


def array(name, file, shape=(8,), dtype="f32"):
    return {"name": name, "dtype": dtype, "shape": list(shape), "file": file}


def good():
    """(manifest, members): out = x + y for eight elements."""
    x, y = [i * 1.0 for i in range(8)], [i * 0.5 for i in range(8)]
    launch = {"kernel": "add_vectors_kernel", "module": "modules/add.psir", "device": 0, "options": "",
              "arguments": [array("x_ref", X), array("y_ref", Y)], "results": [array("o_ref", OUT)]}
    manifest = {"pallasim-capsule": 1, "pallasim": "0.1.0", "jax": "0.10.2", "launches": [launch]}
    members = {"modules/add.psir": (ROOT / "tests" / "pass" / "add_vectors.psir").read_bytes(),
               X: npy(x), Y: npy(y), OUT: npy([a + b for a, b in zip(x, y)])}
    return manifest, members


def pack(path, manifest, members, compression=zipfile.ZIP_STORED, extra=()):
    text = manifest if isinstance(manifest, str) else json.dumps(manifest)
    with zipfile.ZipFile(path, "w", compression) as z:
        for name, content in [*members.items(), *extra, ("manifest.json", text)]:
            z.writestr(zipfile.ZipInfo(name), content, compression)


def patched(path, find, replace, count=1):
    """Changes bytes of the written archive: the last `count` places where they stand."""
    data = path.read_bytes()
    for _ in range(count):
        at = data.rindex(find)
        data = data[:at] + replace + data[at + len(find):]
    path.write_bytes(data)


def make(kind, path):
    manifest, members = good()
    launch = manifest["launches"][0]
    compression, extra = zipfile.ZIP_STORED, []
    if kind == "differs":
        members[OUT] = npy([0, 1.5, 3, 4.25, 6, 7.5, 9, 11.5])
    elif kind == "rounding":
        members[OUT] = npy([i * 1.5000001 for i in range(8)])
    elif kind == "failed":
        launch["error"] = {"code": "PS-OOB-001", "report": ""}
        del launch["results"][0]["file"]
    elif kind in ("oob", "unexpected"):
        half = "launches/2/out.npy"
        failing = {"kernel": "shift_kernel", "module": "modules/oob.psir", "device": 0, "options": "policy=random;seed=7",
                   "arguments": [array("x_ref", X)], "results": [array("o_ref", half, (4,))]}
        members["modules/oob.psir"] = (ROOT / "tests" / "fail" / "run" / "oob_index.psir").read_bytes()
        manifest["launches"].append(failing)
        if kind == "oob":
            del failing["results"][0]["file"]
            failing["error"] = {"code": "PS-OOB-001", "report": ""}
            manifest["omitted"] = 2
        else:
            members[half] = npy(range(4))
    elif kind in ("found", "found_nothing", "found_more", "time", "time_other"):
        # A warning of a checked run, which the recording has, has not, or has with another one; a predicted time.
        launch |= {"kernel": "sums", "module": "modules/sums.psir", "options": "machine=tpu-v5e" if "time" in kind else "detect_races=true",
                   "arguments": [array("x_ref", X, (4, 8, 128))], "results": [array("o_ref", OUT, (8, 128))]}
        members["modules/sums.psir"] = (ROOT / "tests" / "fail" / "run" / "false_parallel.psir").read_bytes()
        members[X], members[OUT] = npy([0.5] * 4096, shape=(4, 8, 128)), npy([0.5] * 1024, shape=(8, 128))
        del members[Y]
        known = {"code": "PS-PAR-001", "severity": "warning", "message": "as it was said then", "file": "sums.py", "line": 4}
        if "time" in kind:
            launch["predicted"] = {"chip": "tpu-v5e", "seconds": TIME if kind == "time" else 5e-06}
        else:
            launch["findings"] = {"found": [known], "found_nothing": [], "found_more": [known, known | {"code": "PS-OUT-001"}]}[kind]
    elif kind == "predicted":  # no number
        launch["predicted"] = {"chip": "tpu-v5e", "seconds": "soon"}
    elif kind == "spins":
        launch |= {"kernel": "spin", "module": "modules/spin.psir", "options": "livelock_steps=0",
                   "arguments": [array("flag_ref", X, (1,), "i32")], "results": [array("o_ref", OUT, (1,), "i32")]}
        members["modules/spin.psir"] = (ROOT / "tests" / "fail" / "run" / "livelock_spin.psir").read_bytes()
        members[X] = members[OUT] = npy([0.0], descr="<i4")
        del members[Y]
    elif kind == "options":
        launch["options"] = "workers=many"
    elif kind == "bad_module":
        members["modules/add.psir"] = b"pallasim-ir 1\nmodule 7\n"
    elif kind == "version":
        manifest["pallasim-capsule"] = 2
    elif kind == "not_json":
        manifest = '{"pallasim-capsule": 1,'
    elif kind == "not_ours":
        manifest = {"name": "extension"}
    elif kind == "no_manifest":
        pack(path, manifest, members)
        patched(path, b"manifest.json", b"Manifest.json", 2)
        return
    elif kind == "key":
        del launch["options"]
    elif kind == "kind":
        launch["device"] = -1
    elif kind == "rank":
        launch["arguments"][0]["shape"] = [1] * 17
    elif kind == "huge":
        launch["arguments"][0]["shape"] = [2**31, 2**31, 2**31]
    elif kind == "member":
        del members[Y]
    elif kind == "array":
        members[X] = npy(range(8), shape=(2, 4))
    elif kind == "array_size":
        members[X] = npy(range(7))
    elif kind == "pickle":
        members[X] = npy(range(8), descr="|O")
    elif kind == "operand":
        for a in launch["arguments"]:
            a["shape"] = [2, 4]
        members[X] = members[Y] = npy(range(8), shape=(2, 4))
    elif kind in ("outside", "absolute", "backslash", "control"):
        name = {"outside": "x/../../evil", "absolute": "/etc/passwd", "backslash": "..\\evil", "control": "a\x1b[2Jb"}[kind]
        extra = [(name, b"x")]
    elif kind == "twice":
        extra = [("launches/1/z.npy", npy([0] * 8))]
    elif kind == "method":
        compression = zipfile.ZIP_LZMA
    elif kind == "deflated":
        compression = zipfile.ZIP_DEFLATED
    elif kind != "good" and kind not in ("cut", "crc", "zip64", "encrypted", "bomb", "empty"):
        raise SystemExit(f"no capsule {kind}")

    pack(path, manifest, members, compression, extra)
    if kind == "cut":
        path.write_bytes(path.read_bytes()[:700])
    elif kind == "empty":
        path.write_bytes(b"PK\5\6" + bytes(18))
    elif kind == "twice":
        patched(path, b"launches/1/z.npy", X.encode(), 2)
    elif kind == "crc":
        patched(path, npy(range(8))[-8:], b"\0" * 8)
    elif kind == "zip64":
        end = path.read_bytes().rindex(b"PK\5\6")
        data = path.read_bytes()
        path.write_bytes(data[:end] + b"PK\6\7" + bytes(16) + data[end:])
    elif kind == "encrypted":
        set_field(path, 8, "<H", 1)
    elif kind == "bomb":
        set_field(path, 24, "<I", 0xF0000000)


def set_field(path, offset, form, value):
    """Changes a field of the first member, in its directory entry and in its local header (which lacks two bytes)."""
    data = bytearray(path.read_bytes())
    entry = data.index(b"PK\1\2")
    struct.pack_into(form, data, entry + offset, value)
    struct.pack_into(form, data, offset - 2, value)
    path.write_bytes(data)


if __name__ == "__main__":
    make(sys.argv[1], pathlib.Path(sys.argv[2]))
