"""Threads, pools of processes by fork, spawn and server, shared memory, pipes; what it prints is compared."""
import concurrent.futures
import ctypes
import hashlib
import json
import multiprocessing
import multiprocessing.shared_memory
import os
import sys
import threading
import zlib


def work(seed):
    rows = [{"id": i, "text": f"{i * seed % 65521:x}" * (i % 40)} for i in range(600)]
    text = json.dumps(rows).encode()
    packed = zlib.compress(text, 1 + seed % 9)
    assert json.loads(zlib.decompress(packed)) == rows
    return hashlib.sha256(text).hexdigest()[:16]


def fill(name, index):
    block = multiprocessing.shared_memory.SharedMemory(name)
    for at in range(index, block.size, 4):
        block.buf[at] = at % 251
    block.close()


def fork_in_threads():
    """Threads allocate while others fork: the child allocates, too."""
    stop = threading.Event()

    def allocate():
        while not stop.is_set():
            [bytearray(n * 37 % 5000) for n in range(200)]

    def fork(failed):
        for _ in range(20):
            child = os.fork()
            if child == 0:
                os._exit(0 if len([bytearray(n) for n in range(3000)]) == 3000 else 1)
            failed.append(os.waitpid(child, 0)[1])

    failed = []
    busy = [threading.Thread(target=allocate) for _ in range(3)]
    forks = [threading.Thread(target=fork, args=(failed,)) for _ in range(2)]
    for thread in busy + forks:
        thread.start()
    for thread in forks:
        thread.join()
    stop.set()
    for thread in busy:
        thread.join()
    return len(failed), sum(status != 0 for status in failed)


def main():
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        print(*pool.map(work, range(1, 19)))
    for method in "fork", "spawn", "forkserver":
        with multiprocessing.get_context(method).Pool(3) as pool:
            print(method, *pool.map(work, range(1, 10)))
    block = multiprocessing.shared_memory.SharedMemory(create=True, size=1 << 20)
    children = [multiprocessing.Process(target=fill, args=(block.name, index)) for index in range(4)]
    for child in children:
        child.start()
    for child in children:
        child.join()
    print(hashlib.sha256(block.buf).hexdigest(), [child.exitcode for child in children])
    block.close()
    block.unlink()
    print(*fork_in_threads())
    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    libc.malloc.argtypes = [ctypes.c_size_t]
    libc.free.argtypes = [ctypes.c_void_p]
    for size in range(0, 1 << 20, 4097):
        libc.free(libc.malloc(size))
    for _ in range(100):
        threads = [threading.Thread(target=lambda: bytearray(100_000)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    print("done", sys.version_info.major)


if __name__ == "__main__":
    main()
