"""What a process that runs somebody else's kernel may not do, by what Linux gives without privileges: Landlock for files, a seccomp filter for sockets,
processes and signals, limits of resources. For the process that asks, before it has a second thread; there is no way back.
"""
from __future__ import annotations

import ctypes
import os
import platform
import resource
import struct
from typing import Any

_HELD = "not held"
_NO_NEW_PRIVS, _SECCOMP = 38, 22
_LANDLOCK = 444, 445, 446  # create_ruleset, add_rule, restrict_self: of every architecture
# Rights of Landlock that change something, by the ABI that brought them; reading and executing are not among them.
_WRITES = ((1, (1 << 1) | sum(1 << n for n in range(4, 13))), (2, 1 << 13), (3, 1 << 14), (5, 1 << 15))
_FILE_RIGHTS = (1 << 1) | (1 << 14) | (1 << 15)  # of them those that a file has

# Numbers of system calls: what is refused, and what is allowed on this process alone or for threads alone.
_CALLS: dict[str, dict[str, Any]] = {
    "x86_64": {"audit": 0xC000003E, "clone": 56, "clone3": 435, "kill": 62, "tgkill": 234, "prlimit64": 302, "truncate": 76, "refused": {
        "socket": 41, "fork": 57, "vfork": 58, "execve": 59, "execveat": 322, "ptrace": 101, "tkill": 200, "process_vm_writev": 311, "pidfd_send_signal": 424,
        "pidfd_getfd": 438, "io_uring_setup": 425, "rt_sigqueueinfo": 129, "rt_tgsigqueueinfo": 297, "bpf": 321, "unshare": 272, "setns": 308, "mount": 165,
        "keyctl": 250, "add_key": 248, "userfaultfd": 323, "perf_event_open": 298, "chmod": 90, "fchmod": 91, "fchmodat": 268, "fchmodat2": 452, "chown": 92,
        "fchown": 93, "lchown": 94, "fchownat": 260, "setxattr": 188, "lsetxattr": 189, "fsetxattr": 190, "removexattr": 197, "lremovexattr": 198,
        "fremovexattr": 199, "utime": 132, "utimes": 235, "futimesat": 261, "utimensat": 280, "shmget": 29, "semget": 64, "msgget": 68, "mq_open": 240}},
    "aarch64": {"audit": 0xC00000B7, "clone": 220, "clone3": 435, "kill": 129, "tgkill": 131, "prlimit64": 261, "truncate": 45, "refused": {
        "socket": 198, "execve": 221, "execveat": 281, "ptrace": 117, "tkill": 130, "process_vm_writev": 271, "pidfd_send_signal": 424, "pidfd_getfd": 438,
        "io_uring_setup": 425, "rt_sigqueueinfo": 138, "rt_tgsigqueueinfo": 240, "bpf": 280, "unshare": 97, "setns": 268, "mount": 40, "keyctl": 219,
        "add_key": 217, "userfaultfd": 282, "perf_event_open": 241, "fchmod": 52, "fchmodat": 53, "fchmodat2": 452, "fchown": 55, "fchownat": 54,
        "setxattr": 5, "lsetxattr": 6, "fsetxattr": 7, "removexattr": 14, "lremovexattr": 15, "fremovexattr": 16, "utimensat": 88, "shmget": 194,
        "semget": 190, "msgget": 186, "mq_open": 180}},
}
_ALLOW, _ERRNO, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_EPERM, _ENOSYS = 1, 38


def confine(folder: str, cpu_seconds: int, file_bytes: int) -> dict[str, str]:
    """Holds this process; files can be written below `folder` alone. What is held by what, and what is not ("not held: ...")."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes))
    if cpu_seconds > 0:
        resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds))
    held = {"time": "killed by its parent; rlimit of CPU time", "memory": "killed by its parent, which looks ten times a second",
            "reads": f"{_HELD}: it reads what its user may read"}
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "no_new_privs")
    except (OSError, AttributeError) as e:
        why = f"{_HELD}: this system has no prctl of Linux ({e})"
        return held | {"writes": why, "network": why, "processes": why}
    abi = 0
    try:
        abi = _landlock(libc, folder)
        held["writes"] = f"Landlock {abi}: in its own folder alone"
    except OSError as e:
        held["writes"] = f"{_HELD}: no Landlock ({e.strerror})"
    try:
        _seccomp(libc, abi)
        held |= {"network": "seccomp: no sockets", "processes": "seccomp: none is started, none but itself gets a signal"}
    except OSError as e:
        held |= dict.fromkeys(("network", "processes"), f"{_HELD}: no seccomp ({e.strerror})")
    return held


def open_parts(held: dict[str, str]) -> list[str]:
    """What should be held and is not."""
    return [f"{what} {held.get(what, _HELD)}" for what in ("writes", "network", "processes") if held.get(what, _HELD).startswith(_HELD)]


def _call(libc: Any, number: int, *args: Any) -> int:
    result = int(libc.syscall(ctypes.c_long(number), *args))
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def _landlock(libc: Any, folder: str) -> int:
    create, add, restrict = _LANDLOCK
    abi = _call(libc, create, None, ctypes.c_size_t(0), ctypes.c_uint32(1))
    rights = sum(bits for since, bits in _WRITES if abi >= since)
    fields = [rights] + ([3] if abi >= 4 else []) + ([3] if abi >= 6 else [])  # files; TCP; abstract sockets and signals
    attr = struct.pack(f"={len(fields)}Q", *fields)
    ruleset = _call(libc, create, attr, ctypes.c_size_t(len(attr)), ctypes.c_uint32(0))
    for path, allowed in ((folder, rights), (os.devnull, rights & _FILE_RIGHTS)):
        fd = os.open(path, getattr(os, "O_PATH", 0) | os.O_CLOEXEC)
        _call(libc, add, ctypes.c_int(ruleset), ctypes.c_int(1), struct.pack("=Qi", allowed, fd), ctypes.c_uint32(0))
        os.close(fd)
    _call(libc, restrict, ctypes.c_int(ruleset), ctypes.c_uint32(0))
    os.close(ruleset)
    return abi


def _filter(calls: dict[str, Any], pid: int, abi: int) -> bytes:
    """A program of classic BPF: instructions of code, jump if true, jump if false, value."""
    load, equal, above, some, ret = 0x20, 0x15, 0x35, 0x45, 0x06
    nr, arch, first = 0, 4, 16  # places in seccomp_data; of arguments their lower halves
    out = [(load, 0, 0, arch), (equal, 1, 0, calls["audit"]), (ret, 0, 0, _KILL), (load, 0, 0, nr),
           (above, 0, 1, 0x40000000), (ret, 0, 0, _ERRNO | _EPERM)]
    refused = [*calls["refused"].values(), *([calls["truncate"]] if abi < 3 else [])]
    for number in refused:
        out += [(equal, 0, 1, number), (ret, 0, 0, _ERRNO | _EPERM)]
    out += [(equal, 0, 1, calls["clone3"]), (ret, 0, 0, _ERRNO | _ENOSYS)]  # its flags lie in memory; C libraries then call clone
    out += [(equal, 0, 4, calls["clone"]), (load, 0, 0, first), (some, 0, 1, 0x10000), (ret, 0, 0, _ALLOW), (ret, 0, 0, _ERRNO | _EPERM)]
    for name, allowed in (("kill", (pid,)), ("tgkill", (pid,)), ("prlimit64", (0, pid))):
        checks = [x for value in allowed for x in ((equal, 0, 1, value), (ret, 0, 0, _ALLOW))]
        out += [(equal, 0, len(checks) + 2, calls[name]), (load, 0, 0, first), *checks, (ret, 0, 0, _ERRNO | _EPERM)]
    out.append((ret, 0, 0, _ALLOW))
    return b"".join(struct.pack("=HBBI", *x) for x in out)


def _seccomp(libc: Any, abi: int) -> None:
    calls = _CALLS.get(platform.machine())
    if calls is None or os.name != "posix" or ctypes.sizeof(ctypes.c_void_p) != 8:
        raise OSError(_ENOSYS, f"not known for {platform.machine()}")
    code = _filter(calls, os.getpid(), abi)
    program = ctypes.create_string_buffer(code, len(code))
    header = struct.pack("@HP", len(code) // 8, ctypes.addressof(program))
    if libc.prctl(_SECCOMP, ctypes.c_ulong(2), ctypes.c_char_p(header), ctypes.c_ulong(0), ctypes.c_ulong(0)) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
