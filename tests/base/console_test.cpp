#include "base/log.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <termios.h>
#include <unistd.h>
#include <array>
#include <string>

#include "base/system.h"

namespace kiln {
namespace {

// A pipe or terminal that a Console writes, and what was read of it so far.
struct Reader {
  int descriptor = -1;
  std::FILE* stream = nullptr;

  std::string read_all() const {
    ::fcntl(descriptor, F_SETFL, O_NONBLOCK);
    std::string text;
    std::array<char, 4096> bytes{};
    for (ssize_t count = 0; (count = ::read(descriptor, bytes.data(), bytes.size())) > 0;)
      text.append(bytes.data(), static_cast<std::size_t>(count));
    return text;
  }
  ~Reader() {
    std::fclose(stream);
    ::close(descriptor);
  }
};

void open_pipe(Reader& reader) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  ::fcntl(ends[1], F_SETPIPE_SZ, 16384);
  reader.descriptor = ends[0];
  reader.stream = ::fdopen(ends[1], "w");
}

const std::string kLine = std::string(99, 'x') + "\n";

TEST(ConsoleTest, LeavesOutWhatNobodyReadsAndSaysHowMuch) {
  Reader reader;
  open_pipe(reader);
  Console console(reader.stream);
  console.never_hold();
  const Stopwatch watch;
  for (int i = 0; i < 300; ++i) console.write(kLine);
  EXPECT_LT(watch.seconds(), 10);
  const long long left_out = console.num_left_out();
  EXPECT_GE(left_out, 130);
  EXPECT_LE(left_out, 180);
  EXPECT_EQ(reader.read_all().substr(0, 100), kLine);
  console.write("again\n");
  const std::string said = reader.read_all();
  EXPECT_NE(said.find("[" + std::to_string(left_out) + " lines were left out here"), said.npos);
  EXPECT_TRUE(said.ends_with("\nagain\n"));
  EXPECT_EQ(console.num_left_out(), left_out);
}

TEST(ConsoleTest, AFullTerminalHoldsNothing) {
  Reader reader;
  reader.descriptor = ::posix_openpt(O_RDWR | O_NOCTTY);
  ASSERT_GE(reader.descriptor, 0);
  ASSERT_EQ(::grantpt(reader.descriptor), 0);
  ASSERT_EQ(::unlockpt(reader.descriptor), 0);
  reader.stream = ::fdopen(::open(::ptsname(reader.descriptor), O_RDWR | O_NOCTTY), "w");
  ASSERT_NE(reader.stream, nullptr);
  Console console(reader.stream);
  console.never_hold();
  for (int i = 0; i < 2000; ++i) console.write(kLine);
  EXPECT_GT(console.num_left_out(), 0);
  console.draw("live");
  reader.read_all();
  console.log_left_out();
  EXPECT_NE(reader.read_all().find("lines were left out here"), std::string::npos);
}

TEST(ConsoleTest, AReaderThatIsGoneIsNotWaitedFor) {
  Reader reader;
  open_pipe(reader);
  ::close(reader.descriptor);
  reader.descriptor = -1;
  survive_broken_pipes();
  Console console(reader.stream);
  console.never_hold();
  for (int i = 0; i < 100; ++i) console.write(kLine);
  EXPECT_EQ(console.num_left_out(), 0);
}

}  // namespace
}  // namespace kiln
