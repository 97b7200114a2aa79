#include "base/error.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <new>
#include <stdexcept>
#include <system_error>

namespace kiln {
namespace {

TEST(Errors, HaveTheDesignersNames) {
  EXPECT_EQ(error_id(ErrorCode::kNotLabeledDataset), "NotLabeledDataset");
  EXPECT_EQ(error_id(ErrorCode::kTimeoutOccured), "TimeoutOccured");
  EXPECT_EQ(static_cast<int>(ErrorCode::kInvalidTransformationDirectory), 158);
  EXPECT_EQ(static_cast<int>(ErrorCode::kInvalidModelDirectory), 159);
  EXPECT_EQ(static_cast<int>(ErrorCode::kModuleOutOfMemory), 138);
}

TEST(Errors, HaveExitCodesByKind) {
  EXPECT_EQ(exit_code(ErrorCode::kParameterParsing), 2);
  for (const ErrorCode code : {ErrorCode::kFailedToCompleteOperation, ErrorCode::kTimeoutOccured,
                               ErrorCode::kModuleOutOfMemory, ErrorCode::kFailedToWriteOutputs}) {
    EXPECT_EQ(exit_code(code), 3);
  }
  for (const ErrorCode code : {ErrorCode::kGreaterThan, ErrorCode::kNaN, ErrorCode::kInvalidDataset,
                               ErrorCode::kInvalidModelDirectory, ErrorCode::kUserError}) {
    EXPECT_EQ(exit_code(code), 1);
  }
}

TEST(Problems, CollectsInOrderAndContinues) {
  Problems problems;
  EXPECT_NO_THROW(problems.throw_if_any());
  problems.collect([] { throw Error(ErrorCode::kInvalidDataset, "first"); });
  problems.collect([] {});
  problems.collect([] {
    Problems inner;
    inner.add(Error(ErrorCode::kNaN, "second"));
    inner.add(Error(ErrorCode::kInfinity, "third"));
    inner.throw_if_any();
  });
  ASSERT_EQ(problems.errors().size(), 3u);
  EXPECT_STREQ(problems.what(), "first");
  EXPECT_EQ(problems.errors()[2].message(), "third");
  EXPECT_THROW(problems.throw_if_any(), Problems);
}

TEST(Problems, LetsOtherExceptionsThrough) {
  Problems problems;
  EXPECT_THROW(problems.collect([] { throw InternalError("bug"); }), InternalError);
}

// The Error that stands for `thrown`; a failure of the test where none does.
template <typename Thrown>
Error explanation(const Thrown& thrown) {
  try {
    std::rethrow_exception(explained(std::make_exception_ptr(thrown)));
  } catch (const Error& error) {
    return error;
  } catch (const std::exception& other) {
    return Error(ErrorCode::kUserError, std::string("unchanged: ") + other.what());
  }
}

std::system_error refusal(int number) {
  return std::system_error(number, std::generic_category(), "open");
}

TEST(Explained, NamesTheOptionsThatHelpWhereTheSystemHasNoMore) {
  EXPECT_NE(explanation(refusal(EMFILE)).message().find("--loader-threads"), std::string::npos);
  EXPECT_NE(explanation(refusal(ENOMEM)).message().find("--batch-size"), std::string::npos);
  const Error no_thread = explanation(refusal(EAGAIN));
  EXPECT_EQ(exit_code(no_thread.code()), 3);
  EXPECT_NE(no_thread.message().find("--loader-threads"), std::string::npos);
}

TEST(Explained, ASystemWithoutRandomNumbersIsNoBug) {
  const Error error = explanation(std::runtime_error("Unable to open /dev/urandom"));
  EXPECT_EQ(exit_code(error.code()), 3);
  EXPECT_NE(error.message().find("/dev/urandom"), std::string::npos);
}

TEST(Explained, MemoryOfAnySourceIsOneError) {
  EXPECT_EQ(explanation(std::bad_alloc()).code(), ErrorCode::kModuleOutOfMemory);
  EXPECT_EQ(explanation(std::runtime_error("CUDA out of memory.")).code(),
            ErrorCode::kModuleOutOfMemory);
  EXPECT_EQ(explanation(refusal(ENOMEM)).code(), ErrorCode::kModuleOutOfMemory);
}

TEST(Explained, OutOfMemoryNamesDeviceAndSize) {
  const auto told = [](const char* what) {
    return explanation(std::runtime_error(what)).message();
  };
  const std::string gpu = told(
      "CUDA out of memory. Tried to allocate 20.50 MiB. GPU 3 has a total capacity of 23.69 GiB of "
      "which 10.88 MiB is free.");
  EXPECT_NE(gpu.find("GPU 3"), gpu.npos) << gpu;
  EXPECT_NE(gpu.find("20.50 MiB"), gpu.npos) << gpu;
  EXPECT_EQ(gpu.find("23.69"), gpu.npos) << gpu;
  const std::string host = told(
      "[enforce fail at alloc_cpu.cpp:117] err == 0. DefaultCPUAllocator: can't allocate memory: "
      "you tried to allocate 4000000000 bytes. Error code 12 (Cannot allocate memory)");
  EXPECT_NE(host.find("this host"), host.npos) << host;
  EXPECT_NE(host.find("4.00 GB"), host.npos) << host;
  EXPECT_EQ(told("CUDA error: out of memory").find("requested"), std::string::npos);
  EXPECT_EQ(explanation(std::runtime_error("could not create a primitive")).code(),
            ErrorCode::kModuleOutOfMemory);
}

TEST(Explained, FaultsOfTheGpuAreNoBugs) {
  for (const char* what :
       {"CUDA error: an illegal memory access was encountered\nSearch for it",
        "CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasSgemm`",
        "CUDA driver error: unknown error", "cuDNN error: CUDNN_STATUS_EXECUTION_FAILED",
        "cuDNN Frontend error: no plan", "FIND was unable to find an engine to execute this"}) {
    const Error error = explanation(std::runtime_error(what));
    EXPECT_EQ(error.code(), ErrorCode::kFailedToCompleteOperation) << what;
    EXPECT_EQ(exit_code(error.code()), 3);
    EXPECT_NE(error.message().find("nvidia-smi"), std::string::npos) << error.message();
    EXPECT_EQ(error.message().find('\n'), std::string::npos);
  }
  EXPECT_EQ(
      explanation(std::runtime_error("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling")).code(),
      ErrorCode::kModuleOutOfMemory);
}

TEST(Explained, AGpuThatIsTooNewIsNotBroken) {
  const Error error = explanation(std::runtime_error(
      "CUDA error: no kernel image is available for execution on the device\nCUDA kernel errors"));
  EXPECT_EQ(exit_code(error.code()), 3);
  EXPECT_NE(error.message().find("newer LibTorch"), std::string::npos) << error.message();
  EXPECT_EQ(error.message().find("dmesg"), std::string::npos) << error.message();
}

TEST(Explained, AnOperationThatIsNotDeterministicNamesTheOption) {
  const Error error = explanation(std::runtime_error(
      "cumsum_cuda_kernel does not have a deterministic implementation, but you set 'x'."));
  EXPECT_EQ(exit_code(error.code()), 1);
  EXPECT_NE(error.message().find("--deterministic"), std::string::npos);
  EXPECT_NE(error.message().find("cumsum_cuda_kernel"), std::string::npos);
}

TEST(Explained, OtherFailuresStay) {
  EXPECT_EQ(explanation(refusal(EIO)).code(), ErrorCode::kUserError);
  EXPECT_EQ(explanation(std::runtime_error("another")).message(), "unchanged: another");
  EXPECT_EQ(explanation(Error(ErrorCode::kNaN, "out of memory, in our words")).code(),
            ErrorCode::kNaN);
}

}  // namespace
}  // namespace kiln
