/* What a program holds of the machine, as the system sees it. */
#include <stdio.h>
#include <unistd.h>

__attribute__((unused)) static long resident_kib(void) {
    long pages = 0, ignored;
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f || fscanf(f, "%ld %ld", &ignored, &pages) != 2) return -1;
    fclose(f);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
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
