/* logindex: ingest service log lines, build an inverted index of terms to
 * line numbers, keep per-host counters, and answer a set of queries. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NLINES 420000
#define NBUCKET 32768
#define MAXFIELD 16

struct posting {
    char *term;
    uint32_t hash;
    uint32_t *lines;
    uint32_t n, cap;
    struct posting *next;
};

struct host {
    char name[24];
    uint64_t seen, errors, bytes;
    struct host *next;
};

struct field {
    const char *key, *val;
};

struct entry {
    uint32_t lineno;
    char *body;            /* private copy, cut up in place */
    struct field *fields;
    int nfields;
};

static struct posting *buckets[NBUCKET];
static struct host *hosts;
static uint64_t rejected, accepted;
static uint32_t rng_state = 20240501u;

static uint32_t rng(void)
{
    rng_state ^= rng_state << 13;
    rng_state ^= rng_state >> 17;
    rng_state ^= rng_state << 5;
    return rng_state;
}

static void *xmalloc(size_t n)
{
    void *p = malloc(n);
    if (!p) { perror("malloc"); exit(1); }
    return p;
}

/* ---------------------------------------------------------------- input */

static const char *levels[] = { "DEBUG", "INFO", "INFO", "WARN", "ERROR" };
static const char *svcs[] = { "auth", "billing", "cart", "search", "mailer", "gateway" };
static const char *verbs[] = { "accepted", "refused", "queued", "retried", "timeout", "closed" };

static size_t read_line(char *buf, size_t cap, uint32_t no)
{
    size_t n;
    uint32_t r = rng();

    n = (size_t)snprintf(buf, cap, "ts=%u host=node-%02u svc=%s level=%s op=%s user=u%u req=%x",
                         1714521600u + no / 7, r % 40, svcs[(r >> 8) % 6],
                         levels[(r >> 12) % 5], verbs[(r >> 16) % 6],
                         rng() % 9000, rng() % 60000);
    if (rng() % 100 < 10) {
        /* a crash report glued to the line by the shipper */
        int frames = 14 + (int)(rng() % 10);
        n += (size_t)snprintf(buf + n, cap - n, " trace");
        for (int i = 0; i < frames && n + 80 < cap; i++)
            n += (size_t)snprintf(buf + n, cap - n, "|#%d 0x%08x in handler_%03u (worker.c:%u)",
                                  i, rng(), rng() % 500, rng() % 2000);
    }
    return n;
}

/* -------------------------------------------------------------- parsing */

static int split_fields(struct entry *e)
{
    char *save = NULL;

    for (char *tok = strtok_r(e->body, " ", &save); tok; tok = strtok_r(NULL, " ", &save)) {
        char *eq = strchr(tok, '=');
        if (!eq || eq == tok)
            return -1;
        if (e->nfields == MAXFIELD)
            return -1;
        *eq = '\0';
        e->fields[e->nfields].key = tok;
        e->fields[e->nfields].val = eq + 1;
        e->nfields++;
    }
    return e->nfields >= 4 ? 0 : -1;
}

static struct entry *entry_parse(const char *line, size_t len, uint32_t lineno)
{
    struct entry *e = xmalloc(sizeof *e);

    e->lineno = lineno;
    e->nfields = 0;
    e->fields = xmalloc(MAXFIELD * sizeof *e->fields);
    e->body = malloc(len + 1);
    if (!e->body)
        goto reject;
    memcpy(e->body, line, len);
    e->body[len] = '\0';
    if (split_fields(e) < 0)
        goto reject;
    return e;

reject:
    free(e->fields);
    free(e);
    return NULL;
}

static void entry_free(struct entry *e)
{
    free(e->fields);
    free(e->body);
    free(e);
}

/* ------------------------------------------------------------- indexing */

static uint32_t hash2(const char *a, const char *b)
{
    uint32_t h = 2166136261u;
    for (; *a; a++) h = (h ^ (unsigned char)*a) * 16777619u;
    h = (h ^ '=') * 16777619u;
    for (; *b; b++) h = (h ^ (unsigned char)*b) * 16777619u;
    return h;
}

static struct posting *posting_get(const char *key, const char *val, int create)
{
    uint32_t h = hash2(key, val);
    struct posting **slot = &buckets[h % NBUCKET];
    size_t kl = strlen(key), vl = strlen(val);

    for (struct posting *p = *slot; p; p = p->next)
        if (p->hash == h && !strncmp(p->term, key, kl) && p->term[kl] == '=' &&
            !strcmp(p->term + kl + 1, val))
            return p;
    if (!create)
        return NULL;
    struct posting *p = xmalloc(sizeof *p);
    p->term = xmalloc(kl + vl + 2);
    memcpy(p->term, key, kl);
    p->term[kl] = '=';
    memcpy(p->term + kl + 1, val, vl + 1);
    p->hash = h;
    p->lines = NULL;
    p->n = p->cap = 0;
    p->next = *slot;
    return *slot = p;
}

static void posting_add(struct posting *p, uint32_t lineno)
{
    if (p->n == p->cap) {
        uint32_t cap = p->cap ? p->cap + p->cap / 2 + 1 : 4;
        uint32_t *q = realloc(p->lines, cap * sizeof *q);
        if (!q) { perror("realloc"); exit(1); }
        p->lines = q;
        p->cap = cap;
    }
    p->lines[p->n++] = lineno;
}

static struct host *host_get(const char *name)
{
    for (struct host *h = hosts; h; h = h->next)
        if (!strcmp(h->name, name))
            return h;
    struct host *h = calloc(1, sizeof *h);
    if (!h) { perror("calloc"); exit(1); }
    snprintf(h->name, sizeof h->name, "%s", name);
    h->next = hosts;
    return hosts = h;
}

static void entry_index(const struct entry *e, size_t len)
{
    for (int i = 0; i < e->nfields; i++) {
        const struct field *f = &e->fields[i];
        if (!strcmp(f->key, "ts"))
            continue;
        posting_add(posting_get(f->key, f->val, 1), e->lineno);
        if (!strcmp(f->key, "host")) {
            struct host *h = host_get(f->val);
            h->seen++;
            h->bytes += len;
        }
    }
}

/* -------------------------------------------------------------- queries */

static uint32_t *intersect(const struct posting *a, const struct posting *b, uint32_t *n)
{
    uint32_t *out = xmalloc((a->n < b->n ? a->n : b->n) * sizeof *out + 4), i = 0, j = 0, k = 0;
    while (i < a->n && j < b->n) {
        if (a->lines[i] < b->lines[j]) i++;
        else if (a->lines[i] > b->lines[j]) j++;
        else { out[k++] = a->lines[i]; i++; j++; }
    }
    *n = k;
    return out;
}

int main(void)
{
    size_t cap = 4096, total = 0;
    char *line = xmalloc(cap);

    for (uint32_t no = 0; no < NLINES; no++) {
        size_t len = read_line(line, cap, no);
        struct entry *e = entry_parse(line, len, no);
        total += len;
        if (!e) { rejected++; continue; }
        entry_index(e, len);
        entry_free(e);
        accepted++;
    }
    printf("read %zu bytes, indexed %lu, rejected %lu\n", total,
           (unsigned long)accepted, (unsigned long)rejected);
    for (int s = 0; s < 6; s++)
        for (int v = 0; v < 6; v++) {
            struct posting *a = posting_get("svc", svcs[s], 0), *b = posting_get("op", verbs[v], 0);
            uint32_t n = 0, *hit = a && b ? intersect(a, b, &n) : NULL;
            printf("%-8s %-9s %6u last=%u\n", svcs[s], verbs[v], n, n ? hit[n - 1] : 0);
            free(hit);
        }
    uint64_t mix = 0;
    for (struct host *h = hosts; h; h = h->next)
        mix = mix * 31 + h->seen + h->bytes;
    printf("host mix %016lx\n", (unsigned long)mix);
    free(line);
    return 0;
}
