// SPDX-License-Identifier: Apache-2.0
// Gets away from whoever started it, as well as a program can without rights: `fugitive COUNT MARK UP` starts COUNT
// processes that fork twice, change their session, ignore what can be ignored, close every descriptor and execute
// themselves with an empty environment; MARK stays among their arguments so that a test finds them.
#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>

namespace {

[[noreturn]] void hide() {
  for (;;) ::pause();
}

[[noreturn]] void flee(char* mark) {
  if (::fork() != 0) ::_exit(0);
  ::setsid();
  if (::fork() != 0) ::_exit(0);
  for (int signal = 1; signal < NSIG; ++signal) ::signal(signal, SIG_IGN);
  ::close_range(0, ~0U, 0);
  char name[] = "hiding";
  char* const argv[] = {name, mark, nullptr};
  char* const environment[] = {nullptr};
  ::execve("/proc/self/exe", argv, environment);
  ::_exit(1);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2) hide();
  if (argc != 4) return 2;
  ::close(::open(argv[3], O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
  for (int i = std::atoi(argv[1]); i > 0; --i) {
    if (::fork() == 0) flee(argv[2]);
  }
  hide();
}
