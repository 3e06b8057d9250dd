/* container MIB
 *
 * A service that has MIB of sessions, loses most of them, and then has MIB of reports; and so again, a few times. What is alive
 * is never more than MIB and some; an eighth of the sessions, a few KiB here and there, stays.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OF_SESSION = 16, SIZE = 200, STAYS = 8, REPORT = 100000, TIMES = 3 };

static void *filled(size_t size) {
    void *block = malloc(size);
    if (!block) {
        puts("refused");
        exit(0);
    }
    return memset(block, 1, size);
}

int main(int argc, char **argv) {
    size_t bytes = (size_t)atoi(argc > 1 ? argv[1] : "60") << 20;
    size_t sessions = bytes / (OF_SESSION * SIZE), reports = bytes / REPORT;
    void **session = calloc(sessions * OF_SESSION, sizeof *session);
    void **report = calloc(reports, sizeof *report);
    for (int time = 0; time < TIMES; time++) {
        for (size_t at = 0; at < sessions * OF_SESSION; at++)
            if (!session[at]) session[at] = filled(SIZE);
        for (size_t at = 0; at < sessions * OF_SESSION; at++)
            if (at / OF_SESSION % STAYS != (size_t)time) {
                free(session[at]);
                session[at] = NULL;
            }
        for (size_t at = 0; at < reports; at++) report[at] = filled(REPORT);
        for (size_t at = 0; at < reports; at++) free(report[at]);
    }
    puts("lived");
    return 0;
}
