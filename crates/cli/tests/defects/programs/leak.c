/* A server that forgets one note of each request. */
#include <stdlib.h>
#include <string.h>

struct note { char text[2000]; };

static struct note *take_note(int request) {
  struct note *note = malloc(sizeof *note); /* the defect */
  memset(note->text, request, sizeof note->text);
  return note;
}

static int serve(int request) {
  char *body = malloc(512 + request % 300);
  body[0] = request;
  struct note *note = take_note(request);
  int answer = body[0] + note->text[7];
  free(body);
  return answer;
}

int main(void) {
  int sum = 0;
  for (int request = 0; request < 20000; request++) sum += serve(request);
  return sum == 42;
}
