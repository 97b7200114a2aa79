// Loaded before the C library (LD_PRELOAD): lets one kind of call fail from its n-th time on, as a
// full disk, a broken device or a limit would. For the program that KILN_FAULT_PROGRAM names,
// between the begin and the end of its main().
//
//   KILN_FAULT="CALL ERRNO N HOW PREFIX"
//     CALL    write, fsync, rename, open, mkdir, thread or new; count: none, all are counted;
//             clock: the time of day jumps, by ERRNO hours
//     N       the first call that fails, from 1
//     HOW     from (and all later ones), once, short (a write of half the bytes, once), or slow
//             (none fails, each takes ERRNO milliseconds more)
//     PREFIX  of the paths whose calls count, where they have paths
//   KILN_FAULT_COUNTS=FILE  each process appends lines "CALL NUMBER"; CALL own:
//                           new in Kiln's own library
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string_view>

namespace {

struct Plan {
  std::array<char, 16> call{}, how{};
  std::array<char, 1024> prefix{};
  int error = 0;
  long first = 0;
};

constexpr std::array<std::string_view, 8> kCalls = {"write", "fsync",  "rename", "open",
                                                    "mkdir", "thread", "new",    "clock"};

Plan plan;
bool is_counting = false;
std::atomic<bool> armed = false;
std::array<std::atomic<long>, kCalls.size()> num_calls = {};

// The real one, which every call here ends in.
template <typename Function>
Function* real(Function*& known, const char* name) {
  if (known == nullptr) known = reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
  return known;
}

bool is_planned(std::string_view call) {
  return armed && (is_counting || call == plan.call.data());
}

bool is_told_how(std::string_view how) {
  return how == plan.how.data();
}

// Counts the call; whether it is to fail.
bool fails_now(std::string_view call) {
  const auto kind = std::find(kCalls.begin(), kCalls.end(), call) - kCalls.begin();
  const long number = ++num_calls[static_cast<std::size_t>(kind)];
  if (is_counting) return false;
  if (is_told_how("slow")) {
    ::usleep(static_cast<useconds_t>(plan.error) * 1000);
    return false;
  }
  const bool fails = is_told_how("from") ? number >= plan.first : number == plan.first;
  if (fails) errno = plan.error;
  return fails;
}

bool has_prefix(const char* path) {
  return std::string_view(path).starts_with(plan.prefix.data());
}

bool fails_on_path(std::string_view call, const char* path) {
  return is_planned(call) && has_prefix(path) && fails_now(call);
}

bool is_below_prefix(int descriptor) {
  std::array<char, 64> link{};
  std::array<char, 1024> path{};
  std::snprintf(link.data(), link.size(), "/proc/self/fd/%d", descriptor);
  return ::readlink(link.data(), path.data(), path.size() - 1) > 0 && has_prefix(path.data());
}

bool fails_on_file(std::string_view call, int descriptor) {
  if (!is_planned(call)) return false;
  const int before = errno;
  const bool is_counted = is_below_prefix(descriptor);
  errno = before;
  return is_counted && fails_now(call);
}

// ---- allocations: of Kiln's library and of the standard library ----

std::atomic<long> num_own_allocations = 0;

bool fails_to_allocate(const void* caller) {
  if (!is_planned("new")) return false;
  dl_find_object found{};  // without a lock
  if (::_dl_find_object(const_cast<void*>(caller), &found) != 0) return false;
  const std::string_view file = found.dlfo_link_map->l_name;
  const bool is_own = file.ends_with("/libkiln.so");
  if (is_own) ++num_own_allocations;
  return (is_own || file.find("libstdc++") != file.npos) && fails_now("new");
}

void* allocate(std::size_t size, std::size_t alignment, const void* caller) {
  if (fails_to_allocate(caller)) return nullptr;
  if (size == 0) size = 1;
  if (alignment <= alignof(std::max_align_t)) return std::malloc(size);
  return ::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
}

void* allocate_or_throw(std::size_t size, std::size_t alignment, const void* caller) {
  void* const memory = allocate(size, alignment, caller);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

// ---- the program's main ----

int (*program_main)(int, char**, char**) = nullptr;

void tell_count() {
  armed = false;
  const char* path = std::getenv("KILN_FAULT_COUNTS");
  if (path == nullptr) return;
  const int file = ::open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (file < 0) return;
  for (std::size_t i = 0; i < kCalls.size(); ++i)
    ::dprintf(file, "%s %ld\n", kCalls[i].data(), num_calls[i].load());
  ::dprintf(file, "own %ld\n", num_own_allocations.load());
  ::close(file);
}

bool is_the_program() {
  const char* wanted = std::getenv("KILN_FAULT_PROGRAM");
  std::array<char, 4096> self{};
  return wanted != nullptr && ::readlink("/proc/self/exe", self.data(), self.size() - 1) > 0 &&
         std::string_view(self.data()) == wanted;
}

int run_main(int count, char** arguments, char** environment) {
  const char* text = std::getenv("KILN_FAULT");
  if (text != nullptr && is_the_program() &&
      std::sscanf(text, "%15s %d %ld %15s %1023s", plan.call.data(), &plan.error, &plan.first,
                  plan.how.data(), plan.prefix.data()) >= 4) {
    is_counting = std::string_view(plan.call.data()) == "count";
    armed = true;
  }
  const int code = program_main(count, arguments, environment);
  if (armed) tell_count();
  return code;
}

}  // namespace

extern "C" {

int __libc_start_main(int (*main)(int, char**, char**), int count, char** arguments, void (*init)(),
                      void (*fini)(), void (*end_of_loader)(), void* stack) {
  static decltype(__libc_start_main)* known = nullptr;
  program_main = main;
  return real(known, "__libc_start_main")(run_main, count, arguments, init, fini, end_of_loader,
                                          stack);
}

ssize_t write(int file, const void* bytes, size_t size) {
  static decltype(write)* known = nullptr;
  if (fails_on_file("write", file)) {
    if (!is_told_how("short") || size < 2) return -1;
    size /= 2;
  }
  return real(known, "write")(file, bytes, size);
}

// What stdio writes does not come through write().
size_t fwrite(const void* bytes, size_t size, size_t count, FILE* file) {
  static decltype(fwrite)* known = nullptr;
  if (fails_on_file("write", ::fileno(file))) return is_told_how("short") ? count / 2 : 0;
  return real(known, "fwrite")(bytes, size, count, file);
}

int fflush(FILE* file) {
  static decltype(fflush)* known = nullptr;
  if (file != nullptr && fails_on_file("fsync", ::fileno(file))) return EOF;
  return real(known, "fflush")(file);
}

int fsync(int file) {
  static decltype(fsync)* known = nullptr;
  return fails_on_file("fsync", file) ? -1 : real(known, "fsync")(file);
}

int rename(const char* from, const char* to) noexcept {
  static decltype(rename)* known = nullptr;
  return fails_on_path("rename", to) ? -1 : real(known, "rename")(from, to);
}

int mkdir(const char* path, mode_t mode) noexcept {
  static decltype(mkdir)* known = nullptr;
  return fails_on_path("mkdir", path) ? -1 : real(known, "mkdir")(path, mode);
}

int open(const char* path, int flags, ...) {
  static decltype(open)* known = nullptr;
  va_list rest;
  va_start(rest, flags);
  const unsigned mode = (flags & O_CREAT) != 0 ? va_arg(rest, unsigned) : 0;
  va_end(rest);
  return fails_on_path("open", path) ? -1 : real(known, "open")(path, flags, mode);
}

FILE* fopen(const char* path, const char* mode) {
  static decltype(fopen)* known = nullptr;
  return fails_on_path("open", path) ? nullptr : real(known, "fopen")(path, mode);
}

FILE* fopen64(const char* path, const char* mode) {
  return fopen(path, mode);
}

int clock_gettime(clockid_t clock, timespec* now) noexcept {
  static decltype(clock_gettime)* known = nullptr;
  const int before = errno;
  const int result = real(known, "clock_gettime")(clock, now);
  if (clock == CLOCK_REALTIME && is_planned("clock") && fails_now("clock")) {
    now->tv_sec += plan.error * 3600L;
    errno = before;
  }
  return result;
}

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*routine)(void*),
                   void* argument) noexcept {
  static decltype(pthread_create)* known = nullptr;
  if (is_planned("thread") && fails_now("thread")) return plan.error;
  return real(known, "pthread_create")(thread, attributes, routine, argument);
}

}  // extern "C"

void* operator new(std::size_t size) {
  return allocate_or_throw(size, 0, __builtin_return_address(0));
}
void* operator new[](std::size_t size) {
  return allocate_or_throw(size, 0, __builtin_return_address(0));
}
void* operator new(std::size_t size, std::align_val_t alignment) {
  return allocate_or_throw(size, static_cast<std::size_t>(alignment), __builtin_return_address(0));
}
void* operator new[](std::size_t size, std::align_val_t alignment) {
  return allocate_or_throw(size, static_cast<std::size_t>(alignment), __builtin_return_address(0));
}
void* operator new(std::size_t size, const std::nothrow_t& /*tag*/) noexcept {
  return allocate(size, 0, __builtin_return_address(0));
}
void* operator new[](std::size_t size, const std::nothrow_t& /*tag*/) noexcept {
  return allocate(size, 0, __builtin_return_address(0));
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete[](void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t /*size*/) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::size_t /*size*/) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::align_val_t /*alignment*/) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::align_val_t /*alignment*/) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t /*size*/, std::align_val_t /*alignment*/) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::size_t /*size*/,
                       std::align_val_t /*alignment*/) noexcept {
  std::free(memory);
}
