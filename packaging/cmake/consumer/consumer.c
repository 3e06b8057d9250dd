/* A heap with a limit: what it cannot give is null. */
#include <freehold.h>
#include <stdio.h>

int main(void) {
  freehold_heap *heap = freehold_heap_create(1 << 20, "consumer");
  if (!heap) return 1;
  void *small = freehold_heap_malloc(heap, 1000), *large = freehold_heap_malloc(heap, 4 << 20);
  printf("small: %s, large: %s\n", small ? "given" : "refused", large ? "given" : "refused");
  freehold_heap_free(heap, small);
  freehold_heap_destroy(heap);
  return !(small && !large);
}
