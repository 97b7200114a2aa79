#include "base/error.h"

#include <gtest/gtest.h>

namespace kiln {
namespace {

TEST(Errors, HaveTheDesignersNames) {
  EXPECT_EQ(error_id(ErrorCode::kNotLabeledDataset), "NotLabeledDataset");
  EXPECT_EQ(error_id(ErrorCode::kTimeoutOccured), "TimeoutOccured");
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

}  // namespace
}  // namespace kiln
