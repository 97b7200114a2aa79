#include "base/signals.h"

#include <unistd.h>

#include <csignal>
#include <initializer_list>
#include <tuple>

namespace kiln {
namespace {

volatile std::sig_atomic_t received = 0;

void handle_stop_signals(void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  ::sigemptyset(&action.sa_mask);
  for (const int signal : {SIGTERM, SIGINT, SIGUSR1}) ::sigaction(signal, &action, nullptr);
}

void end(int signal) {
  // Below a line that is redrawn. What the write says matters to nobody any more.
  if (::isatty(STDOUT_FILENO) == 1) std::ignore = ::write(STDOUT_FILENO, "\n", 1);
  ::_exit(128 + signal);
}

void remember(int signal) {
  if (received != 0) end(signal);
  received = signal;
}

}  // namespace

void end_on_stop_signals_as_process_1() {
  if (::getpid() == 1) handle_stop_signals(end);
}

void install_stop_signals() {
  handle_stop_signals(remember);
}

int stop_signal() {
  return received;
}

}  // namespace kiln
