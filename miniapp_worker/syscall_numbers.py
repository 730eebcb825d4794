"""Numbers of Linux system calls, by machine.

Taken from the kernel's own headers: `asm/unistd_64.h` for x86_64, `asm-generic/unistd.h` for aarch64, whose table has
no old spelling of a call that has a newer one.
"""

from __future__ import annotations

from typing import Final

# name, x86_64, aarch64
_TABLE: Final = """
read 0 63, write 1 64, readv 19 65, writev 20 66, pread64 17 67, pwrite64 18 68, preadv 295 69, pwritev 296 70,
close 3 57, lseek 8 62, open 2 -, openat 257 56, stat 4 -, fstat 5 80, lstat 6 -, newfstatat 262 79, statx 332 291,
access 21 -, faccessat 269 48, faccessat2 439 439, readlink 89 -, readlinkat 267 78, getdents64 217 61, getcwd 79 17,
mmap 9 222, munmap 11 215, mprotect 10 226, mremap 25 216, madvise 28 233, brk 12 214, futex 202 98,
set_robust_list 273 99, get_robust_list 274 100, rseq 334 293, membarrier 324 283, set_tid_address 218 96,
restart_syscall 219 128, exit 60 93, exit_group 231 94, getpid 39 172, gettid 186 178, getppid 110 173,
getuid 102 174, geteuid 107 175, getgid 104 176, getegid 108 177, getresuid 118 148, getresgid 120 150,
getgroups 115 158, getpgrp 111 -, getpgid 121 155, getsid 124 156, uname 63 160, sysinfo 99 179, times 100 153,
getrusage 98 165, getrlimit 97 163, prlimit64 302 261, clock_gettime 228 113, clock_getres 229 114,
clock_nanosleep 230 115, nanosleep 35 101, gettimeofday 96 169, time 201 -, poll 7 -, ppoll 271 73, select 23 -,
pselect6 270 72, epoll_create 213 -, epoll_create1 291 20, epoll_ctl 233 21, epoll_wait 232 -, epoll_pwait 281 22,
epoll_pwait2 441 441, eventfd 284 -, eventfd2 290 19, pipe 22 -, pipe2 293 59, timerfd_create 283 85,
timerfd_settime 286 86, timerfd_gettime 287 87, dup 32 23, dup2 33 -, dup3 292 24, fcntl 72 25, ioctl 16 29,
socket 41 198, connect 42 203, socketpair 53 199, getsockname 51 204, getpeername 52 205, getsockopt 55 209,
sendto 44 206, recvfrom 45 207, shutdown 48 210, rt_sigaction 13 134, rt_sigprocmask 14 135, rt_sigreturn 15 139,
rt_sigpending 127 136, rt_sigsuspend 130 133, rt_sigtimedwait 128 137, sigaltstack 131 132, kill 62 129,
tgkill 234 131, alarm 37 -, setitimer 38 103, getitimer 36 102, clone 56 220, clone3 435 435, prctl 157 167,
seccomp 317 277, sched_yield 24 124, getcpu 309 168, getrandom 318 278, sched_getaffinity 204 123,
sched_getparam 143 121, sched_getscheduler 145 120, sched_setscheduler 144 119, sched_setparam 142 118,
sched_get_priority_max 146 125, sched_get_priority_min 147 126, fadvise64 221 223, chdir 80 49, fchdir 81 50,
fork 57 -, vfork 58 -, execve 59 221, execveat 322 281, ptrace 101 117, process_vm_readv 310 270,
process_vm_writev 311 271, mount 165 40, umount2 166 39, pivot_root 155 41, chroot 161 51, setns 308 268,
unshare 272 97, io_uring_setup 425 425, io_uring_enter 426 426, io_uring_register 427 427, bpf 321 280, bind 49 200,
listen 50 201, accept 43 202, accept4 288 242, setsockopt 54 208, sendmsg 46 211, recvmsg 47 212, sendmmsg 307 269,
recvmmsg 299 243, mkdir 83 -, mkdirat 258 34, rmdir 84 -, unlink 87 -, unlinkat 263 35, rename 82 -, renameat 264 38,
renameat2 316 276, link 86 -, linkat 265 37, symlink 88 -, symlinkat 266 36, chmod 90 -, fchmod 91 52,
fchmodat 268 53, chown 92 -, fchown 93 55, lchown 94 -, fchownat 260 54, utime 132 -, utimes 235 -, futimesat 261 -,
utimensat 280 88, truncate 76 45, ftruncate 77 46, mknod 133 -, mknodat 259 33, setxattr 188 5, lsetxattr 189 6,
fsetxattr 190 7, removexattr 197 14, lremovexattr 198 15, fremovexattr 199 16, creat 85 -, fallocate 285 47,
tkill 200 130, rt_sigqueueinfo 129 138, rt_tgsigqueueinfo 297 240, pidfd_open 434 434, pidfd_send_signal 424 424,
setuid 105 146, setgid 106 144, setresuid 117 147, setresgid 119 149, setgroups 116 159, capset 126 91,
arch_prctl 158 -
"""


def numbers_of(machine: str) -> dict[str, int]:
    """Name to number on `machine` (`x86_64` or `aarch64`); what it does not have is missing. Raises KeyError."""
    column = {"x86_64": 1, "aarch64": 2}[machine]
    rows = (row.split() for row in _TABLE.replace("\n", " ").split(","))
    return {row[0]: int(row[column]) for row in rows if row[column] != "-"}
