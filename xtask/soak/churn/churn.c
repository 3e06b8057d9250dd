/* churn MINUTES PLUGIN: forks, signals, threads that come and go, libraries that come and go, privileges given up, and rest,
 * while three threads replace blocks all the time.
 *
 * Fails on a hang (each step and child has an alarm), on a block that does not hold what was written, and if more memory is
 * resident at the end than after a fifth of the time, by over 2 %. Prints a line a minute. */
#include "churn.h"
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <time.h>

enum { SLOTS = 40000, WORKERS = 3, LARGE = 200 << 10 };

struct block { size_t len; unsigned char bytes[]; };
static struct block *volatile table[SLOTS];
static volatile int resting, resting_now, ending;
static volatile const char *step = "start";

void fail(const char *format, ...) {
    char line[300];
    va_list arguments;
    va_start(arguments, format);
    int len = vsnprintf(line, sizeof line - 1, format, arguments);
    va_end(arguments);
    line[len] = '\n';
    if (write(STDERR_FILENO, line, (size_t)len + 1) < 0) _exit(2);
    _exit(1);
}

static void late(int number) {
    (void)number;
    const char *name = (const char *)step;
    if (write(STDERR_FILENO, "hangs in ", 9) < 0 || write(STDERR_FILENO, name, strlen(name)) < 0) _exit(2);
    if (write(STDERR_FILENO, "\n", 1) < 0) _exit(2);
    signal(SIGTERM, SIG_IGN);
    kill(0, SIGTERM); /* the children that hang */
    _exit(3);
}

/* Mostly small, now and then large. What kind a block is lies with its place in the table, and large ones vary by little: so
 * what lives is steady to a few parts in a thousand, and what is resident tells of the malloc. */
static size_t size(unsigned *random, unsigned slot) {
    unsigned own = slot * 2654435761u, kind = own >> 24, large = (own >> 3) % LARGE;
    if (kind == 0) return large - large / 20 + draw(random) % (large / 10 + 1);
    return kind < 16 ? draw(random) % 8192 : draw(random) % 700;
}

static struct block *make(unsigned *random, unsigned slot) {
    size_t len = size(random, slot);
    struct block *block = draw(random) % 8 ? malloc(sizeof *block + len) : calloc(1, sizeof *block + len);
    if (!block) fail("no memory for %zu bytes", len);
    block->len = len;
    memset(block->bytes, (int)(len & 255), len);
    return block;
}

static void unmake(struct block *block) {
    if (!block) return;
    size_t len = block->len;
    if (len && (block->bytes[0] != (len & 255) || block->bytes[len - 1] != (len & 255) || block->bytes[len / 2] != (len & 255)))
        fail("a block of %zu bytes was overwritten", len);
    free(block);
}

void work(unsigned *random, int count) {
    for (int i = 0; i < count; i++) {
        unsigned slot = draw(random) % SLOTS;
        unmake(__atomic_exchange_n(&table[slot], make(random, slot), __ATOMIC_ACQ_REL));
    }
}

void work_alone(unsigned seed, int count) {
    unsigned random = seed | 1;
    struct block *own[64] = {0};
    for (int i = 0; i < count; i++) {
        int slot = (int)(draw(&random) % 64);
        unmake(own[slot]);
        own[slot] = make(&random, draw(&random));
        size_t grown = own[slot]->len + draw(&random) % 3000;
        own[slot] = realloc(own[slot], sizeof **own + grown);
        if (!own[slot]) fail("no memory to grow");
        memset(own[slot]->bytes, (int)(grown & 255), grown);
        own[slot]->len = grown;
    }
    for (int slot = 0; slot < 64; slot++) unmake(own[slot]);
}

static void *worker(void *argument) {
    unsigned random = (unsigned)(uintptr_t)argument * 2654435761u;
    while (!ending) {
        if (!resting) { work(&random, 50); continue; }
        __atomic_fetch_add(&resting_now, 1, __ATOMIC_SEQ_CST);
        while (resting) usleep(10000);
        __atomic_fetch_sub(&resting_now, 1, __ATOMIC_SEQ_CST);
    }
    return NULL;
}

/* Handlers of fork that allocate; registered before the program's first malloc. */
static struct block *held;
static void before_fork(void) { unsigned random = 7; unmake(__atomic_exchange_n(&held, make(&random, 7), __ATOMIC_ACQ_REL)); }
static void after_fork(void) { unmake(__atomic_exchange_n(&held, NULL, __ATOMIC_ACQ_REL)); }
__attribute__((constructor)) static void handlers(void) { pthread_atfork(before_fork, after_fork, after_fork); }

void wait_for(pid_t child, const char *name) {
    int status;
    pid_t ended;
    while ((ended = waitpid(child, &status, 0)) < 0 && errno == EINTR) continue;
    if (ended != child) fail("%s: the child is gone: %s", name, strerror(errno));
    if (WIFSIGNALED(status)) fail("%s: %s", name, WTERMSIG(status) == SIGALRM ? "the child hangs" : strsignal(WTERMSIG(status)));
    if (WEXITSTATUS(status)) fail("%s: the child's exit is %d", name, WEXITSTATUS(status));
}

void in_child(const char *name, void (*what)(void)) {
    pid_t child = fork();
    if (child < 0) fail("%s: fork: %s", name, strerror(errno));
    if (child == 0) {
        signal(SIGALRM, SIG_DFL);
        alarm(CHILD_S);
        what();
        _exit(0);
    }
    wait_for(child, name);
}

static void *short_life(void *argument) {
    work_alone((unsigned)(uintptr_t)argument, 100);
    unsigned random = (unsigned)(uintptr_t)argument + 1;
    work(&random, 20);
    return make(&random, draw(&random));
}

static void threads(int count) {
    pthread_t all[16];
    for (int done = 0; done < count; done += 16) {
        for (int i = 0; i < 16; i++)
            if (pthread_create(&all[i], NULL, short_life, (void *)(uintptr_t)(done + i + 1))) fail("no thread: %s", strerror(errno));
        for (int i = 0; i < 16; i++) {
            void *left;
            pthread_join(all[i], &left);
            unmake(left);
        }
    }
}
static void many_threads(void) { threads(320); }

/* A child works, has threads and children of its own. */
static void grandchild(void) { work_alone(3, 300); }
static void child(void) {
    work_alone(5, 500);
    threads(16);
    in_child("a child's child", grandchild);
}
static void forks(void) { for (int i = 0; i < 10; i++) in_child("fork", child); }

static void *fork_often(void *argument) {
    for (int i = 0; i < 8; i++) in_child("fork in a thread", grandchild);
    return argument;
}

static volatile int reading;
static void *read_lines(void *argument) {
    while (reading) {
        FILE *file = fopen("/proc/self/maps", "r");
        char *line = NULL;
        size_t room = 0;
        while (file && getline(&line, &room, file) > 0) continue;
        free(line);
        if (file) fclose(file);
        fflush(NULL);
    }
    return argument;
}

static void forks_in_threads(void) {
    pthread_t all[4];
    reading = 1;
    for (int i = 0; i < 4; i++) pthread_create(&all[i], NULL, i < 2 ? fork_often : read_lines, NULL);
    for (int i = 0; i < 2; i++) pthread_join(all[i], NULL);
    reading = 0;
    for (int i = 2; i < 4; i++) pthread_join(all[i], NULL);
}

/* A handler that forks, wherever the thread is: in malloc, in fork. By _Fork, for handlers of fork allocate here, and nothing that
 * interrupts malloc may do that; glibc's own tst-mallocfork2 has the handler that forks without such. */
static volatile int handled, sending;
static void fork_in_handler(int number) {
    (void)number;
    int saved = errno;
    pid_t made = _Fork();
    if (made == 0) _exit(0);
    if (made > 0) while (waitpid(made, NULL, 0) < 0 && errno == EINTR) continue;
    handled++;
    errno = saved;
}
static void *send_signals(void *thread) {
    for (int i = 0; i < 150; i++) {
        pthread_kill(*(pthread_t *)thread, SIGUSR1);
        usleep(2000);
    }
    sending = 0;
    return NULL;
}
static void signals(void) {
    struct sigaction action = {.sa_handler = fork_in_handler, .sa_flags = SA_RESTART};
    sigaction(SIGUSR1, &action, NULL);
    pthread_t self = pthread_self(), sender;
    unsigned random = 99;
    sending = 1, handled = 0;
    pthread_create(&sender, NULL, send_signals, &self);
    while (sending) {
        work(&random, 30);
        pid_t made = fork();
        if (made == 0) _exit(0);
        if (made > 0) while (waitpid(made, NULL, 0) < 0 && errno == EINTR) continue;
    }
    pthread_join(sender, NULL);
    if (!handled) fail("no signal came");
    signal(SIGUSR1, SIG_IGN);
}

static const char *plugin;
static void *load_often(void *argument) {
    for (int i = 0; i < 60; i++) {
        void *library = dlopen(plugin, RTLD_NOW | RTLD_LOCAL);
        void *(*use)(int) = library ? (void *(*)(int))dlsym(library, "plugin_use") : NULL;
        if (!use) fail("dlopen: %s", dlerror());
        free(use(i));
        if (dlclose(library)) fail("dlclose: %s", dlerror());
    }
    return argument;
}
static void libraries(void) {
    pthread_t all[2];
    for (int i = 0; i < 2; i++) pthread_create(&all[i], NULL, load_often, NULL);
    load_often(NULL);
    for (int i = 0; i < 2; i++) pthread_join(all[i], NULL);
}

static void rest(void) {
    resting = 1;
    while (resting_now < WORKERS) usleep(1000);
    sleep(3);
}

/* Asked while all rest: what the churn keeps, not what it is in the middle of. */
static long resident_kib(void) {
    char text[200] = "";
    int file = open("/proc/self/statm", O_RDONLY);
    ssize_t len = read(file, text, sizeof text - 1);
    close(file);
    long pages = 0;
    if (len <= 0 || sscanf(text, "%*d %ld", &pages) != 1) fail("no statm");
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* The middle of the last ones, as many as a minute has: one sample may fall into what the purger is about to do, and on a busy
 * machine several do. */
enum { SAMPLES = 7 };
static int by_size(const void *a, const void *b) {
    long x = *(const long *)a, y = *(const long *)b;
    return (x > y) - (x < y);
}
static long middle(const long last[SAMPLES]) {
    long sorted[SAMPLES];
    memcpy(sorted, last, sizeof sorted);
    qsort(sorted, SAMPLES, sizeof *sorted, by_size);
    return sorted[SAMPLES / 2];
}

static const struct { const char *name; void (*run)(void); } steps[] = {
    {"forks", forks}, {"forks in threads", forks_in_threads}, {"signals", signals}, {"threads", many_threads},
    {"libraries", libraries}, {"privileges", give_up_privileges}, {"rest", rest},
};

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    double length = strtod(argv[1], NULL) * 60, began = seconds(), told = began;
    plugin = argv[2];
    signal(SIGALRM, late);
    pthread_t all[WORKERS];
    for (int i = 0; i < WORKERS; i++) pthread_create(&all[i], NULL, worker, (void *)(uintptr_t)(i + 1));
    long last[SAMPLES] = {0}, early = 0, rounds = 0;
    for (double now = began; now < began + length || rounds < 2 * SAMPLES; now = seconds(), rounds++) {
        for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
            step = steps[i].name;
            alarm(STEP_S);
            steps[i].run();
        }
        last[rounds % SAMPLES] = resident_kib();
        resting = 0;
        if (!early && rounds >= SAMPLES && now >= began + length / 5) early = middle(last);
        if (now >= told + 60 || rounds == 0) {
            told = now;
            printf("%.0f s, round %ld: %ld KiB\n", now - began, rounds + 1, last[rounds % SAMPLES]);
            fflush(stdout);
        }
    }
    ending = 1;
    for (int i = 0; i < WORKERS; i++) pthread_join(all[i], NULL);
    printf("%ld rounds; %ld KiB after a fifth of the time, %ld KiB at the end\n", rounds, early, middle(last));
    fflush(stdout);
    if (middle(last) > early + early / 50) fail("%ld KiB became %ld KiB: more than 2 %%", early, middle(last));
    return 0;
}
