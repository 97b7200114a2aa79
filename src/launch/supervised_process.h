// A program that ends, with all its descendants, no later than this process does.
#pragma once

#include <sys/types.h>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace kiln {

// A command's words as argv for exec and spawn: null-terminated pointers into `words`, which must
// outlive them.
inline std::vector<char*> exec_words(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  pointers.reserve(words.size() + 1);
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

struct ProgramCall {
  std::vector<std::string> words;                                // [0] is the program's path
  std::vector<std::pair<std::string, std::string>> environment;  // added to this process's
};

// A program that ends, with all its descendants, no later than this process does, however this
// process ends. A supervisor process between the two, in its own process group, adopts the
// program's orphans and kills all of them when the program ends or when this process dies.
class SupervisedProcess {
 public:
  // Standard input is empty. Call it from the main thread. Throws Error kFailedToCompleteOperation
  // if the system cannot start another process.
  explicit SupervisedProcess(const ProgramCall& call);
  ~SupervisedProcess();  // kill()
  SupervisedProcess(const SupervisedProcess&) = delete;
  SupervisedProcess& operator=(const SupervisedProcess&) = delete;

  // Non-blocking descriptors of its standard output and standard error; both reach end of file when
  // all processes have ended.
  int output() const { return output_; }
  int errors() const { return errors_; }
  void send_stop();                // SIGUSR1 to the program
  void send_checkpoint_request();  // SIGUSR2, which the program ignores until it asks for it
  // The program's exit code, 128 + n after signal n; empty while the program or a descendant runs.
  std::optional<int> ended();
  // Kills the program and its descendants, and waits until they are gone.
  int kill();

 private:
  pid_t supervisor_ = -1;
  int output_ = -1, errors_ = -1;
  std::optional<int> code_;
};

}  // namespace kiln
