"""Threads that wait for work, in LLVM's words: `chainrule_parallel(task, args, n, least, poll)`.

    void task(ptr args, i64 begin, i64 end, i64 me)
    i1 poll(i64 me)

is called until 0, ..., n - 1 are done, in chunks of at least `least`, by the caller and by whoever
of the workers is free. The caller never waits for a worker to begin: one that comes too late finds
the gate closed, and the caller has done the work. So it also works without workers, in a forked
child say, and where another thread has the pool. Then all is one chunk. `me` is 0 for the caller,
who calls `poll`, if it is not null, while it waits for others (see `interrupts.py`).

A worker watches `epoch` for a while, which costs the caller nothing, then sleeps. Waking uses POSIX
threads' mutex and condition, which Linux and macOS have; elsewhere there are no workers.
"""

from __future__ import annotations

import os

from chainrule.compile.cpu.symbols import MOST_THREADS, PARALLEL, RESET, STOP, WORKER, WORKERS

SPIN = 4000
"""How often a worker looks before it sleeps: some 50 to 100 µs."""
PATIENCE = 2000
"""How often a caller looks whether the workers are ready before it lets others run meanwhile."""
CHUNKS = 8
"""Into how many chunks each thread's share is divided, so that others can help one that is late."""


def text(triple: str) -> str:
    """The pool as a module in LLVM's language for a machine."""
    return _ALONE if os.name != "posix" else _POOL + _pause(triple)


def _pause(triple: str) -> str:
    """`pause`: tell the processor that this thread only waits."""
    head, foot = "define internal void @pause() alwaysinline {\n", "  ret void\n}\n"
    if triple.startswith(("x86_64", "i686")):
        word = "  call void @llvm.x86.sse2.pause()\n"
        return f"declare void @llvm.x86.sse2.pause()\n{head}{word}{foot}"
    if triple.startswith(("aarch64", "arm64")):
        word = "  call void @llvm.aarch64.isb(i32 15)\n"
        return f"declare void @llvm.aarch64.isb(i32)\n{head}{word}{foot}"
    return head + foot


_ALONE = f"""
define void @{PARALLEL}(ptr %task, ptr %args, i64 %n, i64 %least, ptr %poll) {{
  call void %task(ptr %args, i64 0, i64 %n, i64 0)
  ret void
}}
define void @{WORKER}(i64 %me) {{
  ret void
}}
define void @{WORKERS}(i64 %count) {{
  ret void
}}
define void @{STOP}() {{
  ret void
}}
define void @{RESET}() {{
  ret void
}}
"""

_POOL = f"""
declare i32 @pthread_mutex_init(ptr, ptr)
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_init(ptr, ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_broadcast(ptr)
declare i32 @sched_yield()
declare i64 @llvm.smin.i64(i64, i64)
declare i64 @llvm.smax.i64(i64, i64)

; What nobody has taken of a thread's share, and where it ends; a cache line of its own.
%share = type {{ i64, i64, [6 x i64] }}

; Each in a cache line of its own.
@busy = internal global i64 0, align 64   ; 1 while a thread has the pool
@epoch = internal global i64 0, align 64   ; grows with every job
@gate = internal global i64 0, align 64  ; workers that are inside, plus 2^32 while it is open
@shares = internal global [{MOST_THREADS} x %share] zeroinitializer, align 64
@sleepers = internal global i64 0, align 64
@workers = internal global i64 0, align 64
@quit = internal global i64 0, align 64
; task, args, threads, chunk
@job = internal global {{ ptr, ptr, i64, i64 }} zeroinitializer, align 64
@mutex = internal global [16 x i64] zeroinitializer, align 64
@cond = internal global [16 x i64] zeroinitializer, align 64

; Do what is left of the shares, beginning with that of thread `me`: from one job to the next it
; finds in its cache what it wrote there.
define internal void @work(i64 %me) {{
entry:
  %job = load {{ ptr, ptr, i64, i64 }}, ptr @job
  %task = extractvalue {{ ptr, ptr, i64, i64 }} %job, 0
  %args = extractvalue {{ ptr, ptr, i64, i64 }} %job, 1
  %threads = extractvalue {{ ptr, ptr, i64, i64 }} %job, 2
  %chunk = extractvalue {{ ptr, ptr, i64, i64 }} %job, 3
  br label %share
share:
  %done = phi i64 [ 0, %entry ], [ %more, %empty ]
  %turn = add i64 %me, %done
  %whose = urem i64 %turn, %threads
  %next = getelementptr [{MOST_THREADS} x %share], ptr @shares, i64 0, i64 %whose, i32 0
  %last = getelementptr [{MOST_THREADS} x %share], ptr @shares, i64 0, i64 %whose, i32 1
  %stop = load i64, ptr %last
  br label %take
take:
  %begin = atomicrmw add ptr %next, i64 %chunk monotonic
  %some = icmp slt i64 %begin, %stop
  br i1 %some, label %run, label %empty
run:
  %sum = add nsw i64 %begin, %chunk
  %end = call i64 @llvm.smin.i64(i64 %sum, i64 %stop)
  call void %task(ptr %args, i64 %begin, i64 %end, i64 %me)
  br label %take
empty:
  %more = add i64 %done, 1
  %left = icmp ult i64 %more, %threads
  br i1 %left, label %share, label %ready
ready:
  ret void
}}

; Divide n iterations among threads.
define internal void @divide(i64 %n, i64 %threads) {{
entry:
  br label %share
share:
  %i = phi i64 [ 0, %entry ], [ %more, %share ]
  %begin = phi i64 [ 0, %entry ], [ %end, %share ]
  %more = add i64 %i, 1
  %part = mul i64 %n, %more
  %end = udiv i64 %part, %threads
  %next = getelementptr [{MOST_THREADS} x %share], ptr @shares, i64 0, i64 %i, i32 0
  %last = getelementptr [{MOST_THREADS} x %share], ptr @shares, i64 0, i64 %i, i32 1
  store atomic i64 %begin, ptr %next monotonic, align 8
  store i64 %end, ptr %last
  %left = icmp ult i64 %more, %threads
  br i1 %left, label %share, label %ready
ready:
  ret void
}}

define void @{PARALLEL}(ptr %task, ptr %args, i64 %n, i64 %least, ptr %poll) {{
entry:
  %workers = load atomic i64, ptr @workers monotonic, align 8
  %nobody = icmp eq i64 %workers, 0
  %little = icmp sle i64 %n, %least
  %single = or i1 %nobody, %little
  br i1 %single, label %alone, label %claim
claim:
  %claimed = cmpxchg ptr @busy, i64 0, i64 1 acq_rel monotonic
  %mine = extractvalue {{ i64, i1 }} %claimed, 1
  br i1 %mine, label %open, label %alone
alone:
  call void %task(ptr %args, i64 0, i64 %n, i64 0)
  ret void
open:
  %threads = add i64 %workers, 1
  %chunks = mul i64 %threads, {CHUNKS}
  %even = udiv i64 %n, %chunks
  %chunk = call i64 @llvm.smax.i64(i64 %even, i64 %least)
  %j0 = insertvalue {{ ptr, ptr, i64, i64 }} undef, ptr %task, 0
  %j1 = insertvalue {{ ptr, ptr, i64, i64 }} %j0, ptr %args, 1
  %j2 = insertvalue {{ ptr, ptr, i64, i64 }} %j1, i64 %threads, 2
  %j3 = insertvalue {{ ptr, ptr, i64, i64 }} %j2, i64 %chunk, 3
  store {{ ptr, ptr, i64, i64 }} %j3, ptr @job
  call void @divide(i64 %n, i64 %threads)
  store atomic i64 4294967296, ptr @gate release, align 8
  ; A worker that goes to sleep counts itself, then looks at the epoch; here it is the other way
  ; round. So one of the two sees the other.
  %before = atomicrmw add ptr @epoch, i64 1 seq_cst
  %sleepers = load atomic i64, ptr @sleepers seq_cst, align 8
  %asleep = icmp ne i64 %sleepers, 0
  br i1 %asleep, label %wake, label %work
wake:
  %l = call i32 @pthread_mutex_lock(ptr @mutex)
  %c = call i32 @pthread_cond_broadcast(ptr @cond)
  %u = call i32 @pthread_mutex_unlock(ptr @mutex)
  br label %work
work:
  call void @work(i64 0)
  %closed = atomicrmw and ptr @gate, i64 4294967295 acq_rel
  br label %wait
wait:
  %looks = phi i64 [ 0, %work ], [ %more, %idle ], [ %more, %yield ], [ %more, %poll.it ]
  %inside = load atomic i64, ptr @gate acquire, align 8
  %ready = icmp eq i64 %inside, 0
  br i1 %ready, label %done, label %idle
idle:
  call void @pause()
  %more = add i64 %looks, 1
  %long = icmp ugt i64 %more, {PATIENCE}
  br i1 %long, label %yield, label %wait
yield:
  %y = call i32 @sched_yield()
  %polls = icmp ne ptr %poll, null
  br i1 %polls, label %poll.it, label %wait
poll.it:
  %p = call i1 %poll(i64 0)
  br label %wait
done:
  store atomic i64 0, ptr @busy release, align 8
  ret void
}}

define void @{WORKER}(i64 %me) {{
entry:
  %first = load atomic i64, ptr @epoch seq_cst, align 8
  %start = sub i64 %first, 1  ; the job that is going on, if there is one, is not too late for it
  %late = load atomic i64, ptr @quit seq_cst, align 8
  %over = icmp ne i64 %late, 0
  br i1 %over, label %end, label %watch
watch:
  %seen = phi i64 [ %start, %entry ], [ %called, %enter ], [ %called, %inside ]
  br label %look
look:
  %looks = phi i64 [ 0, %watch ], [ %more, %idle ]
  %now = load atomic i64, ptr @epoch acquire, align 8
  %new = icmp ne i64 %now, %seen
  br i1 %new, label %call, label %idle
idle:
  call void @pause()
  %more = add i64 %looks, 1
  %tired = icmp ugt i64 %more, {SPIN}
  br i1 %tired, label %sleep, label %look
sleep:
  %l = call i32 @pthread_mutex_lock(ptr @mutex)
  %s = atomicrmw add ptr @sleepers, i64 1 seq_cst
  br label %check
check:
  %then = load atomic i64, ptr @epoch seq_cst, align 8
  %same = icmp eq i64 %then, %seen
  br i1 %same, label %doze, label %rise
doze:
  %w = call i32 @pthread_cond_wait(ptr @cond, ptr @mutex)
  br label %check
rise:
  %r = atomicrmw sub ptr @sleepers, i64 1 seq_cst
  %u = call i32 @pthread_mutex_unlock(ptr @mutex)
  br label %call
call:
  %called = phi i64 [ %now, %look ], [ %then, %rise ]
  %quit = load atomic i64, ptr @quit acquire, align 8
  %leave = icmp ne i64 %quit, 0
  br i1 %leave, label %end, label %enter
enter:
  %was = load atomic i64, ptr @gate monotonic, align 8
  %open = icmp uge i64 %was, 4294967296
  br i1 %open, label %join, label %watch
join:
  %one = add i64 %was, 1
  %joined = cmpxchg ptr @gate, i64 %was, i64 %one acq_rel monotonic
  %in = extractvalue {{ i64, i1 }} %joined, 1
  br i1 %in, label %inside, label %enter
inside:
  call void @work(i64 %me)
  %out = atomicrmw sub ptr @gate, i64 1 release
  br label %watch
end:
  ret void
}}

define void @{WORKERS}(i64 %count) {{
  store atomic i64 0, ptr @quit seq_cst, align 8
  store atomic i64 %count, ptr @workers seq_cst, align 8
  ret void
}}

define void @{STOP}() {{
  store atomic i64 0, ptr @workers seq_cst, align 8
  store atomic i64 1, ptr @quit seq_cst, align 8
  %before = atomicrmw add ptr @epoch, i64 1 seq_cst
  %l = call i32 @pthread_mutex_lock(ptr @mutex)
  %c = call i32 @pthread_cond_broadcast(ptr @cond)
  %u = call i32 @pthread_mutex_unlock(ptr @mutex)
  ret void
}}

define void @{RESET}() {{
  store i64 0, ptr @busy
  store i64 0, ptr @gate
  store i64 0, ptr @sleepers
  store i64 0, ptr @workers
  %m = call i32 @pthread_mutex_init(ptr @mutex, ptr null)
  %c = call i32 @pthread_cond_init(ptr @cond, ptr null)
  ret void
}}
"""
