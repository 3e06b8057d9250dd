# What the guest does while its kernel's page allocations are recorded: a compiler, files in memory that come and go,
# sorting, packing. All processors have something to do most of the time; between the rounds there are rests.
trace=/sys/kernel/tracing
mount -t tracefs tracefs $trace
mount -t tmpfs none /tmp
cd /tmp
echo 32768 >$trace/buffer_size_kb
echo 1 >$trace/events/kmem/mm_page_alloc/enable
echo 1 >$trace/events/kmem/mm_page_free/enable
cat $trace/trace_pipe &
pipe=$!
for mib in 110 30 70 50; do
    /cc1plus -quiet -O0 -fpreprocessed /words.ii -o words.s &
    compiler=$!
    dd if=/dev/zero bs=1M count=$mib 2>/dev/null | tr '\0' 'x' >plain
    awk -v n=$((mib * 800)) 'BEGIN { for (i = 0; i < n; i++) a[i] = i "x" i; for (i in a) if (i % 3) delete a[i] }'
    mkdir files
    for name in $(seq 1 150); do head -c $((name * mib * 10)) plain >files/$name; done
    rm plain
    tar -c files | gzip -1 >files.gz
    rm -r files
    wait $compiler
    seq 1 $((mib * 1000)) | sort -n -r >sorted
    sleep $((mib / 6))
    rm files.gz sorted words.s
done
echo 0 >$trace/tracing_on
sleep 3
kill $pipe
grep -h dropped $trace/per_cpu/cpu*/stats >&2
