#include "base/error.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <initializer_list>
#include <new>
#include <system_error>
#include <utility>

#include "base/system.h"
#include "base/text.h"
#include "base/url.h"

namespace kiln {
namespace {

std::exception_ptr failure_of(ErrorCode code, std::string message) {
  return std::make_exception_ptr(Error(code, std::move(message)));
}

// Returns the device that a message of LibTorch names: "GPU 0" for "CUDA out of memory. … GPU 0 has
// …", "the GPU" for other messages about CUDA, else "this host".
std::string device_of(std::string_view what) {
  const std::size_t gpu = what.find("GPU ");
  if (gpu != what.npos) {
    const std::size_t end = what.find_first_not_of("0123456789", gpu + 4);
    if (end > gpu + 4) return std::string(what.substr(gpu, std::min(end, what.size()) - gpu));
  }
  return what.find("CUDA") != what.npos ? "the GPU" : "this host";
}

// Returns ": 2.00 GiB were requested" for a message of LibTorch with "Tried to allocate 2.00 GiB.
// GPU …", or the like for "you tried to allocate 4096 bytes. Error …". Empty if the message gives
// no size.
std::string size_asked(std::string_view what) {
  constexpr std::string_view kBefore = "ried to allocate ";
  const std::size_t found = what.find(kBefore);
  if (found == what.npos) return "";
  const std::string_view rest = what.substr(found + kBefore.size());
  const std::string_view size = rest.substr(0, rest.find(". "));
  long long bytes = 0;
  const auto [end, fault] = std::from_chars(size.data(), size.data() + size.size(), bytes);
  const bool is_plain = fault == std::errc() && std::string_view(end).starts_with(" bytes");
  return ": " + (is_plain ? bytes_text(bytes) : std::string(size)) + " were requested";
}

bool has_any(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::ranges::any_of(words, [&](auto word) { return text.find(word) != text.npos; });
}

std::exception_ptr out_of_memory(std::string_view what) {
  return failure_of(ErrorCode::kModuleOutOfMemory,
                    "Out of memory on " + device_of(what) + size_asked(what) +
                        ". Use a smaller --batch-size or smaller images, or a machine with more "
                        "memory.");
}

// Returns an Error with advice for a failed system call, or null if there is none to give. EAGAIN
// means that a thread could not be created: no other call here fails with it.
std::exception_ptr explained_refusal(const std::system_error& refusal) {
  const std::string found = refusal.what();
  switch (refusal.code().value()) {
    case EAGAIN:
      return failure_of(
          ErrorCode::kFailedToCompleteOperation,
          "No more threads can be created (" + found +
              "): use fewer --threads and --loader-threads, or raise the limits of processes "
              "(ulimit -u, or the container's pids limit) and of memory (ulimit -v).");
    case EMFILE:
    case ENFILE:
      return failure_of(ErrorCode::kFailedToCompleteOperation,
                        found +
                            ". Raise the limit of open files (ulimit -n), or use fewer "
                            "--loader-threads.");
    case ENOMEM:
      return failure_of(ErrorCode::kModuleOutOfMemory,
                        found + ". Use a smaller --batch-size, or fewer --loader-threads.");
    default:
      return nullptr;
  }
}

// The same for an exception of LibTorch, recognized by its message: few failures have a type of
// their own.
std::exception_ptr explained_words(std::string_view what) {
  // The last of these is all that oneDNN says when it cannot allocate memory for a kernel's code.
  if (has_any(what, {"out of memory", "can't allocate memory", "ALLOC_FAILED", "ALLOCATION_FAILED",
                     "could not create a primitive"}))
    return out_of_memory(what);
  if (has_any(what, {"/dev/urandom"}))
    return failure_of(ErrorCode::kFailedToCompleteOperation,
                      "The system has no /dev/urandom, from which random numbers begin: mount /dev "
                      "in this container or root folder.");
  constexpr std::string_view kNotDeterministic = " does not have a deterministic implementation";
  if (const std::size_t end = what.find(kNotDeterministic); end != what.npos)
    return failure_of(ErrorCode::kUserError,
                      "--deterministic cannot be guaranteed: the operation " +
                          std::string(what.substr(0, end)) +
                          " has no deterministic implementation on this GPU. Omit it, or use "
                          "--device cpu.");
  if (has_any(what, {"no kernel image is available", "CUDA_ERROR_NO_BINARY_FOR_GPU"}))
    return failure_of(
        ErrorCode::kFailedToCompleteOperation,
        "LibTorch has no code for this GPU, which is probably newer than it: " + first_line(what) +
            ". Use another GPU, a build of kiln with a newer LibTorch, or --device "
            "cpu.");
  if (has_any(what, {"CUDA error", "CUDA driver error", "CUDA NVRTC error", "cuDNN", "CUDNN_STATUS",
                     "cusolver error", "unable to find an engine"}))
    return failure_of(ErrorCode::kFailedToCompleteOperation,
                      "The GPU failed: " + first_line(what) +
                          ". Check nvidia-smi -q, and dmesg for Xid; after a hardware or driver "
                          "fault, reset the GPU or use another." +
                          (environment("KILN_FUSED_NORM") == "1"
                               ? " KILN_FUSED_NORM=0 leaves out Kiln's own kernels."
                               : ""));
  return nullptr;
}

}  // namespace

std::string_view error_id(ErrorCode code) {
  constexpr std::array<std::pair<ErrorCode, std::string_view>, 17> kIds{{
      {ErrorCode::kParameterParsing, "ParameterParsing"},
      {ErrorCode::kGreaterThan, "GreaterThan"},
      {ErrorCode::kGreaterThanOrEqualTo, "GreaterThanOrEqualTo"},
      {ErrorCode::kLessThanOrEqualTo, "LessThanOrEqualTo"},
      {ErrorCode::kNotInRangeValue, "NotInRangeValue"},
      {ErrorCode::kInvalidDataset, "InvalidDataset"},
      {ErrorCode::kNotLabeledDataset, "NotLabeledDataset"},
      {ErrorCode::kNaN, "NaN"},
      {ErrorCode::kInfinity, "Infinity"},
      {ErrorCode::kFailedToCompleteOperation, "FailedToCompleteOperation"},
      {ErrorCode::kTimeoutOccured, "TimeoutOccured"},
      {ErrorCode::kModuleOutOfMemory, "ModuleOutOfMemory"},
      {ErrorCode::kInvalidTransformationDirectory, "InvalidTransformationDirectory"},
      {ErrorCode::kInvalidModelDirectory, "InvalidModelDirectory"},
      {ErrorCode::kFailedToWriteOutputs, "FailedToWriteOutputs"},
      {ErrorCode::kFailedToDownloadFiles, "FailedToDownloadFiles"},
      {ErrorCode::kUserError, "UserError"},
  }};
  for (const auto& [known, id] : kIds)
    if (known == code) return id;
  throw InternalError("error_id: unknown code");
}

int exit_code(ErrorCode code) {
  switch (code) {
    case ErrorCode::kParameterParsing:
      return 2;
    case ErrorCode::kFailedToCompleteOperation:
    case ErrorCode::kTimeoutOccured:
    case ErrorCode::kModuleOutOfMemory:
    case ErrorCode::kFailedToWriteOutputs:
      return 3;
    default:
      return 1;
  }
}

Error::Error(ErrorCode code, std::string message)  // NOLINT: its callers give temporaries
    : code_(code), message_(for_people(message)) {}

void Problems::throw_if_any() const {
  if (!empty()) throw *this;
}

std::exception_ptr explained(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const std::bad_alloc&) {
    return out_of_memory("");
  } catch (const std::system_error& refusal) {
    const std::exception_ptr explanation = explained_refusal(refusal);
    return explanation ? explanation : failure;
  } catch (const Error&) {
    return failure;
  } catch (const Problems&) {
    return failure;
  } catch (const FailedElsewhere&) {
    return failure;
  } catch (const std::exception& other) {
    const std::exception_ptr explanation = explained_words(other.what());
    return explanation ? explanation : failure;
  } catch (...) {
    return failure;
  }
}

}  // namespace kiln
