#!/bin/sh
# Forks of all kinds, threads, contexts, limits, filters for system calls, faults on alternate stacks, memory that is moved
# and given back: what stress-ng does with them must succeed, and says nothing then.
set -eu
"$1" --quiet --timeout 120 \
  --malloc 2 --malloc-ops 20000 --bigheap 1 --bigheap-ops 2000 --bigheap-growth 64k \
  --brk 1 --brk-ops 5000 --mremap 1 --mremap-ops 50 --stack 1 --stack-ops 50 \
  --fork 2 --fork-ops 200 --vfork 1 --vfork-ops 100 --clone 1 --clone-ops 100 \
  --pthread 1 --pthread-ops 200 --context 1 --context-ops 100 \
  --rlimit 1 --rlimit-ops 50 --seccomp 1 --seccomp-ops 20 \
  --sigsegv 1 --sigsegv-ops 50 --bad-altstack 1 --bad-altstack-ops 20 \
  --zlib 1 --zlib-ops 20 --tree 1 --tree-ops 3
