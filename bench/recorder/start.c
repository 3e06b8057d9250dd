// start FILE PROGRAM [ARGUMENT …]: writes its process id into FILE and becomes the program, so that
// whoever measures can see the very program end, whatever tool stands around it.
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv) {
  char text[32];
  if (argc < 3) return 2;
  int file = open(argv[1], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  int length = snprintf(text, sizeof text, "%d\n", (int)getpid());
  if (file < 0 || write(file, text, length) != length || close(file)) return 3;
  execvp(argv[2], argv + 2);
  return 127;
}
