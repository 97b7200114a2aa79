// Runs a program that never outlives this process.
#pragma once

#include <sys/types.h>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace kiln {

// Builds argv for exec and posix_spawn: pointers into `words`, ending with a null pointer. `words`
// must outlive them.
inline std::vector<char*> exec_words(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  pointers.reserve(words.size() + 1);
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

// What can be read now from a non-blocking descriptor, or up to the end from another one. False: it
// has ended.
bool read_available(int descriptor, std::string& text);

struct ProgramCall {
  std::vector<std::string> words;                                // [0] is the program's path
  std::vector<std::pair<std::string, std::string>> environment;  // added to this process's
};

// A program that, with all its descendants, ends no later than this process does, however this
// process ends. A supervisor process between the two, in its own process group, adopts the
// program's orphans and kills them when the program ends or this process dies.
class SupervisedProcess {
 public:
  // The program's standard input is empty. Call from the main thread. Throws Error
  // kFailedToCompleteOperation if the system cannot start another process.
  explicit SupervisedProcess(const ProgramCall& call);
  ~SupervisedProcess();  // kill()
  SupervisedProcess(const SupervisedProcess&) = delete;
  SupervisedProcess& operator=(const SupervisedProcess&) = delete;

  // Non-blocking descriptors for reading the program's standard output and standard error. Both
  // reach end of file when all its processes have ended.
  int output() const { return output_; }
  int errors() const { return errors_; }
  // SIGUSR1 asks the program to stop; SIGUSR2, for a checkpoint, is ignored until it installs a
  // handler.
  void send(int signal);
  // The program's exit code, or 128 + n if signal n killed it; empty while it or a descendant is
  // running.
  std::optional<int> ended();
  // Kills the program and its descendants, waits until they are gone, and returns the exit code.
  int kill();

 private:
  pid_t supervisor_ = -1;
  int output_ = -1, errors_ = -1;
  std::optional<int> code_;
};

}  // namespace kiln
