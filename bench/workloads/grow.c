/* grow FROM TO PERCENT VECTORS ROUNDS
 *
 * Growth by realloc: VECTORS buffers grow in turn from FROM bytes to TO, by PERCENT each step (never
 * less than 16 B), with one word written in each new part; the content is checked at the end; ROUNDS times.
 */
#include "bench.h"

typedef struct { unsigned char *bytes; size_t size; } Vector;

static void push_to(Vector *v, size_t size) {
    unsigned char *grown = realloc(v->bytes, size);
    if (!grown) die("out of memory");
    memset(grown + v->size, (int)(v->size % 251), 8);
    if (size - v->size > 4096) /* a page in sixteen of what is new is used */
        for (size_t at = v->size + 4096; at < size; at += 16 * 4096) grown[at] = 7;
    v->bytes = grown;
    v->size = size;
}

static size_t step(size_t size, unsigned percent) {
    size_t more = size * percent / 100;
    return size + (more < 16 ? 16 : more);
}

static void verify(const Vector *v, size_t from, unsigned percent) {
    for (size_t size = from; size < v->size; size = step(size, percent))
        if (v->bytes[size] != size % 251 || v->bytes[size + 7] != size % 251) die("realloc lost what was written");
}

int main(int argc, char **argv) {
    size_t from = number(argc, argv, 1), to = number(argc, argv, 2);
    unsigned percent = (unsigned)number(argc, argv, 3);
    uint32_t vectors = (uint32_t)number(argc, argv, 4);
    uint64_t rounds = number(argc, argv, 5), ops = 0;
    Vector *all = table(vectors * sizeof *all);
    double start = now_s();
    for (uint64_t round = 0; round < rounds; round++) {
        for (uint32_t i = 0; i < vectors; i++) push_to(&all[i], from);
        for (size_t size = from; size < to; size = step(size, percent))
            for (uint32_t i = 0; i < vectors; i++, ops++) push_to(&all[i], step(size, percent));
        for (uint32_t i = 0; i < vectors; i++) {
            verify(&all[i], from, percent);
            free(all[i].bytes);
            all[i] = (Vector){0};
        }
    }
    report(ops, now_s() - start);
}
