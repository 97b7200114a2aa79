#include "base/signals.h"

#include <unistd.h>

#include <csignal>
#include <initializer_list>

namespace kiln {
namespace {

volatile std::sig_atomic_t received = 0;

void remember(int signal) {
  if (received != 0) ::_exit(128 + signal);
  received = signal;
}

}  // namespace

void install_stop_signals() {
  struct sigaction action {};
  action.sa_handler = remember;
  action.sa_flags = SA_RESTART;
  ::sigemptyset(&action.sa_mask);
  for (const int signal : {SIGTERM, SIGINT, SIGUSR1}) ::sigaction(signal, &action, nullptr);
}

int stop_signal() {
  return received;
}

}  // namespace kiln
