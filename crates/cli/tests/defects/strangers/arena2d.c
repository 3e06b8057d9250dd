/* arena2d: a headless game server.  Loads a level made of many text chunks,
 * links them, then runs the match: entities walk over the map using distance
 * fields, one per goal, computed on demand and refreshed when doors move. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NCHUNK 17000
#define DOC_TEXT 3880
#define GRID 104
#define NFIELD 900
#define NENT 1500
#define TICKS 3000

struct doc {                    /* one chunk of level text while loading */
    struct doc *next;
    uint32_t id, len;
    char text[DOC_TEXT];
};

struct spawn {                  /* a place where entities enter the map */
    struct spawn *next;
    uint32_t chunk;
    int16_t x, y;
    uint32_t kind, weight;
    struct spawn *partner;
};

struct entity {
    int x, y, goal;
    uint32_t hp, score;
};

struct field {
    uint32_t version;
    int32_t dist[GRID * GRID];
};

struct shot {
    struct shot *next;
    int target, ttl;
};

static uint8_t wall[GRID * GRID];
static struct spawn *spawns, **spawn_by_chunk;
static struct field *cache[NFIELD];
static struct entity *ents;
static struct shot *shots;
static uint32_t seed = 4242, map_version;
static uint64_t fired, hits, built;

static uint32_t rnd(void)
{
    seed = seed * 1103515245u + 12345u;
    return (seed >> 9) & 0x7fffff;
}

static void *must(void *p)
{
    if (!p) { fprintf(stderr, "out of memory\n"); exit(1); }
    return p;
}

/* -------------------------------------------------------------- loading */

static struct doc *doc_read(uint32_t id)
{
    struct doc *d = must(malloc(sizeof *d));
    int n = snprintf(d->text, DOC_TEXT, "chunk %u\nspawn %u %u %u\nlink %u\n", id,
                     rnd() % GRID, rnd() % GRID, rnd() % 5, rnd() % NCHUNK);
    d->id = id;
    while (n < DOC_TEXT - 24)
        n += snprintf(d->text + n, (size_t)(DOC_TEXT - n), "tile %u %u\n",
                      rnd() % (GRID * GRID), rnd() % 9);
    d->len = (uint32_t)n;
    return d;
}

static struct spawn *spawn_parse(const struct doc *d)
{
    unsigned id, x, y, kind;
    struct spawn *s;
    if (sscanf(d->text, "chunk %u\nspawn %u %u %u", &id, &x, &y, &kind) != 4)
        return NULL;
    s = must(malloc(sizeof *s));
    s->chunk = id;
    s->x = (int16_t)x;
    s->y = (int16_t)y;
    s->kind = kind;
    s->weight = d->len % 13 + 1;
    s->partner = NULL;
    s->next = spawns;
    return spawns = s;
}

static void doc_tiles(const struct doc *d)
{
    const char *p = d->text;
    while ((p = strstr(p, "tile "))) {
        char *end;
        unsigned long at = strtoul(p + 5, &end, 10);
        unsigned long what = strtoul(end, &end, 10);
        if (at % GRID && at / GRID)
            wall[at] = (uint8_t)(what == 3);
        p = end;
    }
}

static void doc_link(const struct doc *d)
{
    const char *p = strstr(d->text, "link ");
    if (p)
        spawn_by_chunk[d->id]->partner = spawn_by_chunk[strtoul(p + 5, NULL, 10)];
}

static void level_load(void)
{
    struct doc *docs = NULL;
    spawn_by_chunk = must(calloc(NCHUNK, sizeof *spawn_by_chunk));
    for (uint32_t i = 0; i < NCHUNK; i++) {
        struct doc *d = doc_read(i);
        d->next = docs;
        docs = d;
        spawn_by_chunk[i] = spawn_parse(d);
        doc_tiles(d);
    }
    while (docs) {              /* links may point forward, so a second pass */
        struct doc *d = docs;
        docs = d->next;
        doc_link(d);
        free(d);
    }
}

/* ------------------------------------------------------------- the match */

static void field_build(struct field *f, int goal)
{
    int32_t *queue = must(malloc(sizeof(int32_t) * GRID * GRID));
    static const int step[4] = { 1, -1, GRID, -GRID };
    int head = 0, tail = 0;

    f->version = map_version;
    for (int i = 0; i < GRID * GRID; i++)
        f->dist[i] = INT32_MAX;
    f->dist[goal] = 0;
    queue[tail++] = goal;
    while (head < tail) {
        int at = queue[head++];
        for (int k = 0; k < 4; k++) {
            int to = at + step[k];
            if (to < 0 || to >= GRID * GRID || wall[to] || f->dist[to] != INT32_MAX)
                continue;
            if ((k == 0 && to % GRID == 0) || (k == 1 && at % GRID == 0))
                continue;
            f->dist[to] = f->dist[at] + 1;
            queue[tail++] = to;
        }
    }
    free(queue);
    built++;
}

static const struct field *field_for(int goal)
{
    struct field *f = cache[goal];
    if (f && f->version == map_version)
        return f;
    if (!f)
        f = cache[goal] = must(malloc(sizeof *f));
    field_build(f, spawn_by_chunk[goal]->y * GRID + spawn_by_chunk[goal]->x);
    return f;
}

static void doors_move(void)
{
    for (int i = 0; i < 40; i++) {
        uint32_t at = rnd() % (GRID * GRID);
        if (at % GRID && at / GRID)
            wall[at] ^= 1;
    }
    map_version++;
}

static void entity_step(struct entity *e)
{
    const struct field *f = field_for(e->goal);
    int at = e->y * GRID + e->x, best = at;
    static const int dx[4] = { 1, -1, 0, 0 }, dy[4] = { 0, 0, 1, -1 };

    for (int k = 0; k < 4; k++) {
        int x = e->x + dx[k], y = e->y + dy[k];
        if (x >= 0 && y >= 0 && x < GRID && y < GRID && f->dist[y * GRID + x] < f->dist[best])
            best = y * GRID + x;
    }
    e->x = best % GRID;
    e->y = best / GRID;
    if (best == at) {           /* arrived or stuck: through a spawn, new goal */
        struct spawn *s = spawn_by_chunk[rnd() % NCHUNK];
        e->score += s->weight;
        s = s->partner ? s->partner : s;
        e->x = s->x;
        e->y = s->y;
        e->goal = (int)(rnd() % NFIELD);
    } else if (rnd() % 6 == 0) {
        struct shot *b = must(malloc(sizeof *b));
        b->target = (int)(rnd() % NENT);
        b->ttl = 3 + (int)(rnd() % 12);
        b->next = shots;
        shots = b;
        fired++;
    }
}

static void shots_step(void)
{
    for (struct shot **pp = &shots; *pp;) {
        struct shot *b = *pp;
        if (--b->ttl > 0) { pp = &b->next; continue; }
        ents[b->target].hp -= 1;
        hits++;
        *pp = b->next;
        free(b);
    }
}

int main(void)
{
    uint64_t mix = 0;
    level_load();
    ents = must(calloc(NENT, sizeof *ents));
    for (int i = 0; i < NENT; i++) {
        struct spawn *s = spawn_by_chunk[rnd() % NCHUNK];
        ents[i] = (struct entity){ s->x, s->y, (int)(rnd() % NFIELD), 1000, 0 };
    }
    for (int tick = 1; tick <= TICKS; tick++) {
        if (tick % 1000 == 0)
            doors_move();
        for (int i = 0; i < NENT; i++)
            entity_step(&ents[i]);
        shots_step();
    }
    for (int i = 0; i < NENT; i++)
        mix = mix * 1099511628211ull + ents[i].score + ents[i].hp * 7u + (uint32_t)ents[i].x;
    printf("ticks=%d fields built=%lu fired=%lu hits=%lu mix=%016lx\n", TICKS,
           (unsigned long)built, (unsigned long)fired, (unsigned long)hits, (unsigned long)mix);
    return 0;
}
