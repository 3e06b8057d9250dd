// Begins glibc's mtrace in a program that does not call it.
#include <mcheck.h>
__attribute__((constructor)) static void begin(void) { mtrace(); }
