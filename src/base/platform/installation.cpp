#include "base/platform/installation.h"

#include <dlfcn.h>
#include <gnu/libc-version.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "base/files.h"
#include "base/system.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLibrary = "libkiln.so";
constexpr const char* kPackage = "kiln_trainer";  // of the wheel
constexpr const char* kTorchLibrary = "torch/lib/libtorch_cpu.so";
// Open MPI's plug-ins and the GPU module use what the library brings.
constexpr int kAsIfLinked = RTLD_NOW | RTLD_GLOBAL;

[[noreturn]] void refuse(const std::string& sentence) {
  throw Error(ErrorCode::kFailedToCompleteOperation, sentence);
}

// The folders for Python packages of the environment whose programs are in `bin`.
std::vector<fs::path> package_folders(const fs::path& bin) {
  const fs::path prefix = bin.parent_path();
  std::vector<fs::path> folders = {prefix};  // of pip's --target
  for (const char* library : {"lib", "lib64", "local/lib"}) {
    std::vector<fs::path> versions;
    std::error_code failure;
    for (const auto& entry : fs::directory_iterator(prefix / library, failure))
      if (entry.path().filename().string().starts_with("python3")) versions.push_back(entry.path());
    // The newest first: python3.13 before python3.9.
    std::ranges::sort(versions, std::ranges::greater{}, [](const fs::path& version) {
      const std::string name = version.filename().string();
      return std::pair(name.size(), name);
    });
    for (const fs::path& version : versions)
      for (const char* kind : {"site-packages", "dist-packages"})
        if (is_there(version / kind)) folders.push_back(version / kind);
  }
  return folders;
}

std::optional<fs::path> first_with(const std::vector<fs::path>& folders, const fs::path& file) {
  const auto found = std::ranges::find_if(
      folders, [&](const fs::path& folder) { return is_there(folder / file); });
  return found == folders.end() ? std::nullopt : std::optional(*found);
}

// The beginning of a file that pip or Python wrote; empty if there is none.
std::istringstream text_of(const fs::path& path) {
  std::string text;
  if (is_file(path)) {
    text.resize(4096);
    std::ifstream file(path);
    file.read(text.data(), std::ssize(text));
    text.resize(file.gcount());
  }
  return std::istringstream(text);
}

// The folders that may hold LibTorch for a wheel in `packages` whose starter is in `bin`, the
// likeliest first. Paths that depend on the working directory are not followed: it may be
// anybody's.
std::vector<fs::path> torch_folders(const fs::path& bin, const fs::path& packages) {
  std::vector<fs::path> folders = {packages};
  const auto add = [&](const fs::path& of) {
    if (of.is_absolute()) std::ranges::copy(package_folders(of), std::back_inserter(folders));
  };
  add(bin);
  std::istringstream settings = text_of(bin.parent_path() / "pyvenv.cfg");
  for (std::string line; std::getline(settings, line);)
    if (line.starts_with("home")) {  // of the Python that a virtual environment builds on
      add(line.substr(std::min(line.size(), line.find_first_not_of(" =", 4))));
      break;
    }
  std::istringstream programs(environment("PATH"));
  for (std::string folder; std::getline(programs, folder, ':');)
    if (is_there(fs::path(folder) / "python3")) add(folder);
  return folders;
}

// The version in torch/version.py, such as "2.11.0+cpu".
std::string version_of_torch(const fs::path& folder) {
  std::istringstream file = text_of(folder / "torch/version.py");
  for (std::string line; std::getline(file, line);) {
    const std::size_t begin = line.find('\''), end = line.rfind('\'');
    if (line.starts_with("__version__") && begin < end)
      return line.substr(begin + 1, end - begin - 1);
  }
  return "unknown";
}

// What the system's loader says, in words for whoever wants the program to run.
[[noreturn]] void refuse_unopened(const fs::path& file, const std::string& said,
                                  const std::string& remedy) {
  for (const char* lack : {"annot allocate memory", "zero-fill"})
    if (said.find(lack) != said.npos) throw Error(ErrorCode::kModuleOutOfMemory, "Out of memory.");
  const std::string opening = "'" + file.string() + "' cannot be opened: ";
  const std::size_t wanted = said.find("version `");
  if (wanted == said.npos) refuse(opening + said + ". " + remedy);
  const std::size_t begin = wanted + std::string_view("version `").size();
  refuse(opening + "it needs " + said.substr(begin, said.find('\'', begin) - begin) +
         ", and this system is older (its C library is glibc " + ::gnu_get_libc_version() +
         "). Use the container image, or a newer system.");
}

// While it exists, a fault of the loader in a file that is cut short ends the process with a
// sentence.
class LoaderFaults {
 public:
  explicit LoaderFaults(const std::string& sentence) {
    told() = sentence;
    struct sigaction action {};
    action.sa_handler = end;
    for (std::size_t i = 0; i < std::size(kSignals); ++i)
      ::sigaction(kSignals[i], &action, &former_[i]);
  }
  ~LoaderFaults() {
    for (std::size_t i = 0; i < std::size(kSignals); ++i)
      ::sigaction(kSignals[i], &former_[i], nullptr);
  }
  LoaderFaults(const LoaderFaults&) = delete;
  LoaderFaults& operator=(const LoaderFaults&) = delete;

 private:
  static constexpr int kSignals[] = {SIGBUS, SIGSEGV};
  static std::string& told() {
    static std::string sentence;
    return sentence;
  }
  static void end(int) {
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, told().data(), told().size());
    ::_exit(exit_code(ErrorCode::kFailedToCompleteOperation));
  }

  struct sigaction former_[std::size(kSignals)]{};
};

// How whatever is broken is installed again.
const std::string kUnpackAgain = "Install Kiln again.";
const std::string kKilnAgain =
    "Install Kiln again: pip install --force-reinstall --no-deps kiln_trainer-" KILN_VERSION
    "-….whl";
const std::string kTorchAgain =
    "Install PyTorch again: pip install --force-reinstall 'torch==" KILN_LIBTORCH ".*'";

// Opens the LibTorch of the environment, which the library then uses.
void open_torch(const fs::path& bin, const fs::path& packages) {
  const std::string root = environment("KILN_TORCH_ROOT");
  const std::optional<fs::path> folder = first_with(
      root.empty() ? torch_folders(bin, packages) : std::vector<fs::path>{root}, kTorchLibrary);
  const std::string remedy = ": pip install 'torch==" KILN_LIBTORCH ".*'";
  if (!folder && !root.empty())
    refuse("KILN_TORCH_ROOT is '" + root + "', which has no " + kTorchLibrary +
           ": set it to the folder that holds torch/, or unset it.");
  if (!folder)
    refuse("Kiln needs PyTorch " KILN_LIBTORCH ", which is not installed in this environment" +
           remedy + ", or set KILN_TORCH_ROOT to the folder that holds torch/.");
  if (const std::string found = version_of_torch(*folder); !found.starts_with(KILN_LIBTORCH "."))
    refuse("Kiln needs PyTorch " KILN_LIBTORCH ", and '" + (*folder / "torch").string() +
           "' is PyTorch " + found + remedy + ".");
  // Whose own libraries lie beside its real place.
  open_part(fs::canonical(*folder / kTorchLibrary), kAsIfLinked, kTorchAgain);
}

// The C++ runtime that the library uses: that which came with it, as that of the system may be too
// old, or that of the system if it is newer, as what is opened of the system (libheif) may need it.
fs::path newest_runtime(const fs::path& brought) {
  for (const fs::path folder : {"/usr/lib/x86_64-linux-gnu", "/usr/lib64"}) {
    std::error_code none;
    fs::path found = fs::canonical(folder / brought.filename(), none);
    if (found.filename() > KILN_RUNTIME) return found;  // such as libstdc++.so.6.0.33
  }
  return brought;
}

void require_place_and_memory() {
  // MKL ends the process in a folder that was removed, with a message that blames a library.
  char folder[PATH_MAX];
  if (::getcwd(folder, sizeof folder) == nullptr && errno == ENOENT)
    throw Error(ErrorCode::kUserError,
                "The working directory no longer exists: change to another one (cd).");
  // With less, libraries fail while they initialize themselves, some without a word, and oneDNN
  // calls kernels that it had no memory to build.
  constexpr rlim_t kNeeded = rlim_t{1} << 30;
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur < kNeeded)
    throw Error(ErrorCode::kModuleOutOfMemory,
                "The limit of address space is " + std::to_string(limit.rlim_cur >> 20) +
                    " MiB, and LibTorch needs " + std::to_string(kNeeded >> 20) +
                    " MiB at least: raise it (ulimit -v).");
}

}  // namespace

std::string_view version_number() {
  return KILN_VERSION;
}

std::string_view commit() {
  return KILN_COMMIT;
}

std::string_view program_version() {
  return "kiln " KILN_VERSION " (" KILN_COMMIT ")";
}

void end_without_memory() {
  constexpr std::string_view kSentence = "error: Out of memory.\n";
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, kSentence.data(), kSentence.size());
  ::_exit(exit_code(ErrorCode::kModuleOutOfMemory));
}

fs::path part_of_program(const std::string& name) {
  Dl_info file{};
  if (::dladdr(reinterpret_cast<void*>(&part_of_program), &file) == 0) return name;
  // The loader knows a program by the words that started it.
  const fs::path self = file.dli_fname,
                 folder = (self.filename() == kLibrary ? self : fs::read_symlink("/proc/self/exe"))
                              .parent_path();
  const fs::path beside = folder / name;
  return is_there(beside) ? beside : folder.parent_path() / "lib" / name;
}

void* open_part(const fs::path& file, int flags, const std::string& remedy) {
  const LoaderFaults faults("error: '" + file.string() +
                            "', or a library that it needs, is damaged or cut short. " + remedy +
                            "\n");
  void* library = ::dlopen(file.c_str(), flags);
  if (library == nullptr) refuse_unopened(file, ::dlerror(), remedy);
  return library;
}

Main* open_library() {
  require_place_and_memory();
  const fs::path bin = fs::read_symlink("/proc/self/exe").parent_path();
  fs::path file = part_of_program(kLibrary);
  std::optional<fs::path> packages;
  if (!is_there(file)) {
    packages = first_with(package_folders(bin), kPackage);
    if (!packages)
      refuse("The library " + std::string(kLibrary) + " is not beside this program, nor in '" +
             file.parent_path().string() + "'. " + kUnpackAgain);
    file = *packages / kPackage / kLibrary;
  }
  const std::string& remedy = packages ? kKilnAgain : kUnpackAgain;
  const std::string name = "libstdc++.so.6";
  void* runtime = open_part(newest_runtime(packages ? *packages / kPackage / name : fs::path(name)),
                            kAsIfLinked, remedy);
  // What throws while libraries initialize themselves is beyond a catch, and only memory is so
  // little: a terminate handler says so.
  using SetHandler = std::terminate_handler(std::terminate_handler);
  auto* set_handler = reinterpret_cast<SetHandler*>(::dlsym(runtime, "_ZSt13set_terminatePFvvE"));
  const std::terminate_handler former = set_handler(end_without_memory);
  if (packages) open_torch(bin, *packages);
  void* library = open_part(file, kAsIfLinked, remedy);
  set_handler(former);
  using Version = const char*();
  auto* version = reinterpret_cast<Version*>(::dlsym(library, kVersionSymbol));
  auto* entry = reinterpret_cast<Main*>(::dlsym(library, kMainSymbol));
  if (version == nullptr || entry == nullptr || version() != program_version())
    refuse("'" + file.string() + "' is from another build than this program, " +
           std::string(program_version()) + ". " + remedy +
           (packages ? " If that does not help, it is another Python's: remove its folder." : ""));
  return entry;
}

}  // namespace kiln
