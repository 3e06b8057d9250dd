/* What a program holds of the machine, as the system sees it. */
#include <dirent.h>
#include <stdio.h>
#include <unistd.h>

/* A field of the process's memory, in KiB, from its page tables: `statm` sums counters of each processor, which lag by
 * megabytes where there are many processors. */
__attribute__((unused)) static long rolled_up_kib(const char *field) {
    char line[256], format[64];
    long kib = -1;
    snprintf(format, sizeof format, "%s: %%ld", field);
    FILE *f = fopen("/proc/self/smaps_rollup", "r");
    while (f && fgets(line, sizeof line, f)) sscanf(line, format, &kib);
    if (f) fclose(f);
    return kib;
}

__attribute__((unused)) static long resident_kib(void) { return rolled_up_kib("Rss"); }

/* How many threads there are; those that were joined or end detached are there a little longer. */
__attribute__((unused)) static int threads_alive(void) {
    int count = 0;
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *task; tasks && (task = readdir(tasks));) count += task->d_name[0] != '.';
    if (tasks) closedir(tasks);
    return count;
}

/* How many mappings there are: the system allows 65530. */
__attribute__((unused)) static int mappings(void) {
    int lines = 0, c;
    FILE *f = fopen("/proc/self/maps", "r");
    if (!f) return -1;
    while ((c = getc(f)) != EOF) lines += c == '\n';
    fclose(f);
    return lines;
}
