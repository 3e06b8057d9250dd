/* Teams of threads that come and go, tasks that free what others allocated, reductions over blocks; what it prints is
 * compared. cc -O2 -fopenmp */
#include <omp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct node { struct node *left, *right; uint64_t value; };

static struct node *build(int depth, uint64_t seed) {
    struct node *node = malloc(sizeof *node + seed % 200);
    node->value = seed;
    node->left = node->right = NULL;
    if (depth == 0) return node;
#pragma omp task shared(node) if (depth > 6)
    node->left = build(depth - 1, seed * 2862933555777941757u + 1);
#pragma omp task shared(node) if (depth > 6)
    node->right = build(depth - 1, seed * 3202034522624059733u + 1);
#pragma omp taskwait
    return node;
}

static uint64_t fell(struct node *node) {
    if (!node) return 0;
    uint64_t left = 0, right = 0;
#pragma omp task shared(left) if (node->value & 1)
    left = fell(node->left);
    right = fell(node->right);
#pragma omp taskwait
    uint64_t sum = node->value ^ (left + right * 3);
    free(node);
    return sum;
}

int main(void) {
    uint64_t sum = 0;
    for (int round = 0; round < 10; round++) {
        struct node *root = NULL;
        uint64_t found = 0;
#pragma omp parallel num_threads(1 + round % 8)
#pragma omp single
        root = build(13, (uint64_t)round + 1);
#pragma omp parallel num_threads(8 - round % 8)
#pragma omp single
        found = fell(root);
        printf("%016llx\n", (unsigned long long)found);
    }
    for (int round = 0; round < 200; round++) {
#pragma omp parallel for schedule(dynamic, 7) reduction(+ : sum) num_threads(4)
        for (int i = 1; i < 400; i++) {
            unsigned char *block = i % 2 ? calloc(1, (size_t)i * 37) : aligned_alloc(64, (size_t)i * 64);
            if (i % 2 && block[(size_t)i * 37 - 1] != 0) abort();
            memset(block, i, (size_t)i * 37);
            block = realloc(block, (size_t)i * 61);
            sum += block[i * 37 - 1];
            free(block);
        }
    }
    printf("%llu\n", (unsigned long long)sum);
}
