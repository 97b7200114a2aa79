#include "data/stream/record_stream.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <future>
#include <string_view>
#include <thread>
#include <utility>

namespace kiln {
namespace {

using namespace std::chrono_literals;

// While it lives, a pipe is the standard input.
class PipedInput {
 public:
  PipedInput() : before_(::dup(STDIN_FILENO)) {
    int ends[2] = {-1, -1};
    EXPECT_EQ(::pipe(ends), 0);
    EXPECT_EQ(::dup2(ends[0], STDIN_FILENO), STDIN_FILENO);
    ::close(ends[0]);
    writer_ = ends[1];
  }
  ~PipedInput() {
    close_writer();
    ::dup2(before_, STDIN_FILENO);
    ::close(before_);
  }
  void write(std::string_view bytes) const {
    EXPECT_EQ(::write(writer_, bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  }
  void close_writer() {
    if (writer_ >= 0) ::close(std::exchange(writer_, -1));
  }

 private:
  const int before_;
  int writer_ = -1;
};

TEST(ByteStreamTest, StandardInputEndsWithItsWriter) {
  PipedInput input;
  input.write("three words, no more");
  StreamWatch watch;
  ByteStream bytes("-", watch);
  EXPECT_EQ(bytes.take(5), "three");
  input.close_writer();
  EXPECT_EQ(bytes.take(15), " words, no more");
  EXPECT_EQ(bytes.peek(1), "");
}

// Two programs are told of the same bytes, and one gets them: the other must not wait for more in a
// way that nothing ends.
TEST(ByteStreamTest, AWaitForSharedStandardInputCanBeEnded) {
  for (int round = 0; round < 20; ++round) {
    PipedInput input;
    StreamWatch watches[2];
    std::future<void> readers[2];
    for (int i = 0; i < 2; ++i) {
      readers[i] = std::async(std::launch::async, [&watch = watches[i]] {
        ByteStream bytes("-", watch);
        EXPECT_THROW(bytes.take(1000), StreamClosed);
      });
    }
    for (int i = 0; i < 5; ++i) {
      std::this_thread::sleep_for(1ms);
      input.write("x");
    }
    std::this_thread::sleep_for(1ms);
    for (StreamWatch& watch : watches) watch.closing = true;
    bool have_ended = true;
    for (std::future<void>& reader : readers)
      have_ended = have_ended && reader.wait_for(10s) == std::future_status::ready;
    input.close_writer();  // which ends any wait
    ASSERT_TRUE(have_ended) << "in round " << round;
  }
}

}  // namespace
}  // namespace kiln
