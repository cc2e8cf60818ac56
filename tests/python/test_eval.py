"""pallasim eval: one verdict on a kernel's file, in a process that cannot touch what is its caller's, and the same by HTTP."""
import http.client
import json
import os
import subprocess
import sys
import threading
import time

import pytest

from pallasim import _confine, _eval, _eval_cli, _eval_server

pytestmark = pytest.mark.one_jax

CHIP = "tpu-v5e"
KERNEL = """
import jax
from jax.experimental import pallas as pl

def body(x_ref, o_ref):
    o_ref[...] = x_ref[...] * 2

def kernel(x):
    spec = pl.BlockSpec((8, 128), lambda i: (i, 0))
    return pl.pallas_call(body, out_shape=x, grid=(4,), in_specs=[spec], out_specs=spec)(x)
"""
REFERENCE = """
import jax.numpy as jnp

def inputs():
    return jnp.arange(32 * 128.0).reshape(32, 128)

def reference(x):
    return x + x
"""


def judged(text, reference=REFERENCE, chips=(CHIP,), **limits):
    return _eval.evaluate(_eval.Source(text, "kernel.py", "kernel"), _eval.Source(reference, "reference.py", "reference") if reference else None, chips,
                          _eval.Limits(**limits))


def test_a_verdict_has_one_shape(tmp_path):
    verdict = judged(KERNEL, chips=(CHIP, "tpu-v6e"))
    assert verdict["pallasim_eval"] == 1 and verdict["ok"] and verdict["status"] == "ok"
    assert [c["chip"] for c in verdict["chips"]] == [CHIP, "tpu-v6e"]
    first = verdict["chips"][0]
    assert (first["legal"], first["right"], first["error"], first["findings"]) == (True, True, 0.0, []) and 1e-6 < first["seconds"] < 1e-4
    assert "steps of the grid" in first["change"] and first["change"] == verdict["change"]
    wrong = judged(KERNEL.replace("* 2", "* 3"))
    (part,) = wrong["chips"]
    assert not wrong["ok"] and part["status"] == "wrong" and part["legal"] and part["right"] is False and part["seconds"] is None
    assert "differs in 4,095 of 4,096 elements" in wrong["reason"]
    assert wrong.keys() == verdict.keys() and part.keys() == first.keys()  # a program reads all alike
    assert json.loads(json.dumps(verdict)) == verdict


TRIES = """
import errno, os, socket, subprocess
did = []
def attempt(name, f):
    try:
        f()
        did.append(name)
    except OSError as e:
        if e.errno not in (errno.EPERM, errno.EACCES, errno.EXDEV):  # the last one is a link out of its folder
            did.append(f"{{name}}: {{e}}")
outside = os.path.join({folder!r}, "theirs")
attempt("write", lambda: open(outside, "w"))
attempt("make", lambda: open(outside + ".new", "w"))
attempt("remove", lambda: os.remove(outside))
attempt("rename", lambda: os.rename(outside, outside + ".2"))
attempt("chmod", lambda: os.chmod(outside, 0o777))
attempt("utime", lambda: os.utime(outside))
attempt("truncate", lambda: os.truncate(outside, 0))
attempt("mkdir", lambda: os.mkdir(outside + ".d"))
attempt("link", lambda: os.link(outside, "mine"))
attempt("tcp", lambda: socket.create_connection(("127.0.0.1", {port}), 1))
attempt("udp", lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
attempt("unix", lambda: socket.socket(socket.AF_UNIX))
attempt("fork", lambda: os.fork() or os._exit(0))
attempt("spawn", lambda: subprocess.run(["true"]))
attempt("kill", lambda: os.kill(os.getppid(), 0))
open("own", "w").write("allowed")
raise SystemError(f"did {{did}}, reads {{open(outside).read()}}")
"""


def confined():
    return subprocess.run([sys.executable, "-c", "import sys, tempfile; from pallasim import _confine; "
                           "sys.exit(bool(_confine.open_parts(_confine.confine(tempfile.mkdtemp(), 0, 1 << 30))))"]).returncode == 0


def test_what_it_cannot_touch(tmp_path):
    if not confined():
        pytest.skip("this system has no Landlock or no seccomp")
    (tmp_path / "theirs").write_text("something")
    verdict = judged(TRIES.format(folder=str(tmp_path), port=9))
    assert verdict["reason"] == "SystemError: did [], reads something" and verdict["held"]["reads"].startswith("not held")
    assert verdict["held"]["writes"].startswith("Landlock") and verdict["held"]["network"] == "seccomp: no sockets"
    assert sorted(os.listdir(tmp_path)) == ["theirs"] and (tmp_path / "theirs").read_text() == "something"


def test_where_nothing_holds_it_nothing_runs(monkeypatch):
    monkeypatch.setattr(_confine, "open_parts", lambda held: ["writes not held: no Landlock (Function not implemented)"])
    verdict = judged("raise SystemExit('ran')")
    assert verdict["status"] == "unconfined" and "no Landlock" in verdict["reason"] and verdict["change"] == "--trust runs it all the same"
    assert judged(KERNEL, trust=True)["ok"]


def test_limits_are_verdicts():
    slow = judged("while True: pass", seconds=5)
    assert slow["status"] == "time limit" and slow["reason"] == "it took more than 5 s" and slow["chips"][0]["legal"] is None
    large = judged("x = []\nwhile True: x.append(bytearray(b'x') * (1 << 26))", seconds=300, bytes=1 << 30)
    assert large["status"] == "memory limit" and "more than 1,024" in large["reason"]
    assert judged("import os\nos._exit(3)")["reason"].startswith("its process ended with exit code 3")
    assert judged("import os\nfor n in range(3, 64):\n  try: os.write(n, (1 << 62).to_bytes(8, 'little') + b'{}')\n  except OSError: pass\nos._exit(0)")["status"] == "died"


def test_who_is_wrong_is_said():
    broken = judged(KERNEL, REFERENCE.replace("x + x", "x.nothing"))
    assert broken["status"] == "error" and broken["reason"].startswith("the reference: AttributeError")
    assert judged("def kernel(x): return x")["reason"] == "it launches no Pallas kernel"
    assert judged("x = 1")["reason"] == "NameError: kernel.py has no function kernel"
    alone = judged(KERNEL + "import jax.numpy as jnp\ndef inputs(): return [jax.ShapeDtypeStruct((32, 128), jnp.float32)]", None)
    assert alone["ok"] and alone["chips"][0]["right"] is None and alone["chips"][0]["seconds"] > 0
    big = judged(KERNEL.replace("(8, 128)", "(7, 128)"))
    assert big["status"] == "refused" and big["chips"][0]["legal"] is False and big["chips"][0]["code"] == "PS-TPU-001" and big["chips"][0]["line"] in (9, 10)


def test_the_command_line(tmp_path):
    (tmp_path / "k.py").write_text(KERNEL)
    (tmp_path / "r.py").write_text(REFERENCE)
    command = [sys.executable, "-m", "pallasim", "eval", str(tmp_path / "k.py"), "--reference", str(tmp_path / "r.py"), "--chip", CHIP]
    done = subprocess.run([*command, "--json"], capture_output=True, text=True)
    assert done.returncode == 0 and json.loads(done.stdout)["ok"], done.stderr
    assert _eval_cli.size("500M") == 500 << 20 and _eval_cli.size("123") == 123
    assert subprocess.run([*command[:-1], "tpu-v5"], capture_output=True, text=True).stderr.startswith("error: unknown machine 'tpu-v5'")


@pytest.fixture
def server():
    with _eval_server.Server(0, _eval.Limits(), 1, 2) as s:
        threading.Thread(target=s.serve_forever, daemon=True).start()
        yield s
        s.shutdown()


def ask(server, method, path, body=None, **headers):
    c = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=120)
    c.request(method, path, None if body is None else json.dumps(body), {"Content-Type": "application/json"} | headers)
    r = c.getresponse()
    return r.status, json.loads(r.read())


def test_the_server_and_its_queue(server):
    assert ask(server, "GET", "/")[1]["pallasim_eval"] == 1
    status, told = ask(server, "POST", "/eval", {"kernel": KERNEL, "reference": REFERENCE, "chips": [CHIP]})
    assert status == 202 and told["id"] == 1 and told["state"] in ("queued", "running")
    until = time.monotonic() + 30
    while ask(server, "GET", "/eval/1")[1]["state"] == "queued" and time.monotonic() < until:
        time.sleep(0.02)
    more = [ask(server, "POST", "/eval", {"kernel": "x = 1", "chips": [CHIP]})[0] for _ in range(3)]
    assert more == [202, 202, 503]  # one runs, two wait
    status, told = ask(server, "GET", "/eval/1?wait=120")
    assert status == 200 and told["state"] == "done" and told["verdict"]["ok"]
    assert ask(server, "GET", "/eval/3?wait=120")[1]["verdict"]["reason"].endswith("kernel.py has no function inputs")


def test_the_server_refuses(server):
    assert ask(server, "GET", "/eval/77")[0] == 404
    for body, said in (({"kernel": KERNEL}, "are needed"), ({"kernel": KERNEL, "chips": ["tpu-v55"]}, "unknown machine"),
                       ({"kernel": KERNEL, "chips": [CHIP], "chip": 1}, "no field is called chip"), ({"kernel": KERNEL, "chips": [CHIP], "time_limit": -1}, "limits")):
        status, told = ask(server, "POST", "/eval", body)
        assert status == 400 and said in told["error"]
    assert ask(server, "POST", "/eval", {}, Origin="http://example.org")[0] == 403
    assert ask(server, "GET", "/", None, Host="example.org:80")[0] == 403
    assert ask(server, "POST", "/eval", {}, **{"Content-Type": "text/plain"})[0] == 400
