/* A preload library with nothing in it: the floor of the start-up rows. */
int freehold_bench_empty;
