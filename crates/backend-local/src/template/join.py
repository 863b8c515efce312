"""From the template into a sandbox.

    template -- forks ahead --> joiner: waits for an order of the service, becomes the
    sandbox's user, enters its namespaces, locks itself down, and forks --> zygote

The template reads nothing of an order, so nothing of one sandbox is left in what
another is forked from. Until it is locked down the joiner is in the sandbox's PID
namespace for nobody: it is the zygote that is seen there, forked as the last step.
Every step that fails ends the joiner, and the service is told which one it was.
"""

import _socket
import array
import ctypes
import gc
import os
import select
import signal
import struct
import time

_FILTERS = ("/.sandbox/allow", "/.sandbox/refuse")
# User outside, user inside; what follows is the working directory.
_ORDER = struct.Struct("=II")
_MAX_ORDER = 4096
_MAX_FDS = 16
_PAUSE = 0.1
# What a joiner says to the template.
_TAKEN, _OVER = b"t", b"o"
# Two forks at once take longer each; but nobody waits for a joiner that stands still,
# or that the kernel lets wait: to join a cgroup can take a grace period of RCU.
_OTHERS_FIRST = 0.01

# <linux/sched.h>: mount, cgroup, UTS, IPC, user, PID, network.
_NAMESPACES = (
    0x00020000 | 0x02000000 | 0x04000000 | 0x08000000 | 0x10000000 | 0x20000000 | 0x40000000
)
# <linux/prctl.h>
_GET_SECCOMP, _SET_SECCOMP, _FILTER_MODE = 21, 22, 2
_BOUNDING_READ, _BOUNDING_DROP = 23, 24
_SUBREAPER = 36
_SET_NO_NEW_PRIVS, _GET_NO_NEW_PRIVS = 38, 39
_AMBIENT, _AMBIENT_CLEAR = 47, 4
_SET_DUMPABLE = 4
_MAX_CAPABILITY = 63
# The same number on every architecture since it was added.
_CLOSE_RANGE = 436

_libc = ctypes.CDLL(None, use_errno=True)
_libc.prctl.argtypes = [ctypes.c_int] + [ctypes.c_ulong] * 4
_libc.setns.argtypes = [ctypes.c_int] * 2
_close_range = _libc.syscall
_close_range.argtypes = [ctypes.c_long] + [ctypes.c_uint] * 3


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]


class _CapabilityHeader(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint32), ("pid", ctypes.c_int)]


_Capabilities = ctypes.c_uint32 * 6


def _call(step, function, *arguments):
    """A call of the C library that answers 0 or more."""
    ctypes.set_errno(0)
    result = function(*arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), step)
    return result


def _prctl(step, option, first=0, second=0):
    return _call(step, _libc.prctl, option, first, second, 0, 0)


def _expect(step, found, expected):
    if found != expected:
        raise OSError(0, "%s: %r" % (step, found))


def _program(path):
    """A system call filter, in memory that stays."""
    with open(path, "rb") as file:
        content = file.read()
    buffer = ctypes.create_string_buffer(content, len(content))
    program = _Program(len(content) // 8, ctypes.addressof(buffer))
    return program, buffer


def _receive(socket):
    data, ancillary, _, _ = socket.recvmsg(_MAX_ORDER, _socket.CMSG_SPACE(4 * _MAX_FDS))
    fds = array.array("i")
    for _, _, content in ancillary:
        fds.frombytes(content)
    return data, fds


def join():
    """Stays in the template; returns in each sandbox, with the socket to serve on."""
    # Standard input is the control socket: a sandbox's descriptors are others.
    control = _socket.socket(fileno=os.dup(0))
    null = os.open("/dev/null", os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    # Of bubblewrap, which says where it started the template.
    os.environ.pop("PWD", None)
    filters = [_program(path) for path in _FILTERS]
    # The kernel reaps what ends: the end of a sandbox waits for its last process to
    # be reaped (pid_namespaces(7)), and must not wait for this one.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    _prctl("subreaper", _SUBREAPER, 1)
    gc.collect()
    # Gives back what importing has left over: each page is one more to fork.
    _libc.malloc_trim(0)
    # Not looked at again, so that the children's pages stay shared.
    gc.freeze()
    control.send(b"ready")
    while True:
        taken, take = os.pipe()
        try:
            pid = os.fork()
        except OSError:
            pid = None
            time.sleep(_PAUSE)
        if pid == 0:
            os.close(taken)
            serve = _joiner(control, take, filters)
            del control, filters
            return serve
        os.close(take)
        said = os.read(taken, 1) if pid is not None else b""
        if said == _OVER:
            os._exit(0)
        if said == _TAKEN:
            select.select([taken], [], [], _OTHERS_FIRST)
        os.close(taken)


def _joiner(control, take, filters):
    """Waits for one order; returns in the sandbox."""
    try:
        data, fds = _receive(control)
    except BaseException:
        data = b""
    if not data:
        # The service is gone.
        os.write(take, _OVER)
        os._exit(0)
    control.close()
    os.write(take, _TAKEN)
    status = -1
    try:
        status, sandbox, serve, *groups = fds
        # From here on it is the sandbox's own time that is lost, if any.
        os.write(status, b"taken ")
        outside, inside = _ORDER.unpack_from(data)
        _enter(outside, sandbox, groups)
        _lock_down(filters)
        _check(inside)
        serve, status, take = _settle(serve, status, take, data[_ORDER.size :])
        pid = os.fork()
    except BaseException as error:
        _end(status, error)
    if pid != 0:
        os._exit(0)
    try:
        os.close(take)
        os.setsid()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        # As after execve: a change of user had made it undumpable.
        _prctl("dumpable", _SET_DUMPABLE, 1)
        os.write(status, b"joined")
        os.close(status)
    except BaseException as error:
        _end(status, error)
    return serve


def _end(status, error):
    """No traceback is printed: that would look for source files, in the sandbox."""
    try:
        os.write(status, ("failed: %s" % error).encode("utf-8", "replace"))
    finally:
        os._exit(1)


def _enter(user, sandbox, groups):
    for group in groups:
        os.write(group, b"0\n")
    os.setgroups([])
    os.setresgid(user, user, user)
    # The owner of the sandbox's user namespace has all rights in it, and only there
    # (user_namespaces(7)); from here on this is no more than bubblewrap was.
    os.setresuid(user, user, user)
    # All at once or none, of a process that cannot be another meanwhile (setns(2)).
    _call("namespaces", _libc.setns, sandbox, _NAMESPACES)


def _lock_down(filters):
    for capability in range(_MAX_CAPABILITY + 1):
        # Fails for those that this kernel does not have.
        if _libc.prctl(_BOUNDING_DROP, capability, 0, 0, 0) < 0:
            break
    _prctl("ambient set", _AMBIENT, _AMBIENT_CLEAR)
    header, none = _CapabilityHeader(0x20080522, 0), _Capabilities()
    _call("capabilities", _libc.capset, ctypes.byref(header), ctypes.byref(none))
    _prctl("no_new_privs", _SET_NO_NEW_PRIVS, 1)
    for program, _ in filters:
        pointer = ctypes.addressof(program)
        _prctl("seccomp", _SET_SECCOMP, _FILTER_MODE, pointer)


def _check(user):
    """Asks the kernel rather than trusting what was done."""
    _expect("user", os.getresuid(), (user, user, user))
    _expect("group", os.getresgid(), (user, user, user))
    _expect("groups", os.getgroups(), [])
    header, found = _CapabilityHeader(0x20080522, 0), _Capabilities(*[1] * 6)
    _call("capabilities", _libc.capget, ctypes.byref(header), ctypes.byref(found))
    _expect("capabilities", list(found), [0] * 6)
    for capability in range(_MAX_CAPABILITY + 1):
        left = _libc.prctl(_BOUNDING_READ, capability, 0, 0, 0)
        _expect("bounding set", max(left, 0), 0)
    _expect("no_new_privs", _prctl("no_new_privs", _GET_NO_NEW_PRIVS), 1)
    _expect("seccomp", _prctl("seccomp", _GET_SECCOMP), _FILTER_MODE)


def _settle(serve, status, take, directory):
    """Descriptors and the working directory, as a program of the sandbox has them."""
    os.chdir(directory)
    null = os.open("/dev/null", os.O_RDWR)
    # Out of the way of the numbers that they get.
    kept = [os.dup2(fd, 100 + number) for number, fd in enumerate((serve, status, take))]
    for number in (0, 1, 2):
        os.dup2(null, number)
    kept = [os.dup2(fd, 3 + number, inheritable=False) for number, fd in enumerate(kept)]
    _call("descriptors", _close_range, _CLOSE_RANGE, 3 + len(kept), 0xFFFFFFFF, 0)
    return kept
