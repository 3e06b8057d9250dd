/* A long list of short-lived messages, with one small session among each page of them that stays. */
#include <stdlib.h>
#include <string.h>

#define PAGES 8000
#define BETWEEN 31

static void *sessions[PAGES];
static void *messages[PAGES * BETWEEN];

static void *open_session(int number) {
  char *session = malloc(112); /* the defect */
  memset(session, number, 112);
  return session;
}

static void *receive(int number) {
  char *message = malloc(112);
  memset(message, number, 112);
  return message;
}

int main(void) {
  for (int page = 0; page < PAGES; page++) {
    sessions[page] = open_session(page);
    for (int i = 0; i < BETWEEN; i++) messages[page * BETWEEN + i] = receive(i);
  }
  for (int i = 0; i < PAGES * BETWEEN; i++) free(messages[i]);
  char *last = malloc(100000); /* the rest of the day */
  for (int i = 0; i < 200000; i++) {
    last[i % 100000] = i;
    free(malloc(40));
  }
  free(last);
  for (int page = 0; page < PAGES; page++) free(sessions[page]);
  return 0;
}
