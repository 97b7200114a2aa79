// Damaged run records may be rejected or read; neither the reader nor the pages made from them may
// crash.
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/files.h"
#include "base/mutate.h"
#include "record/run_file.h"
#include "report/page/page.h"
#include "report/run_samples.h"

namespace kiln {
namespace {

std::string sample_record() {
  const auto folder =
      std::filesystem::path(testing::TempDir()) / ("record_mutation_" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  record_run(hostile_run(), folder / kRunFileName);
  std::string text = read_file(folder / kRunFileName);
  std::filesystem::remove_all(folder);
  return resumed_text(hostile_run().start, text, sample_interruption());
}

void make_pages(const std::string& record) {
  const RunRecord run = parse_run(record);
  EXPECT_FALSE(report_html(run).empty());
  const std::vector<NamedRun> runs = {{"one", run}, {"other", hostile_run()}};
  EXPECT_FALSE(comparison_html(runs).empty());
  EXPECT_FALSE(comparison_text(runs).empty());
}

TEST(RecordMutation, Bytes) {
  EXPECT_GT(test::count_refused<Error>(sample_record(), make_pages), test::num_mutations() / 10);
}

// Positions and lengths of the numbers in `text`.
std::vector<std::pair<std::size_t, std::size_t>> numbers_of(const std::string& text) {
  std::vector<std::pair<std::size_t, std::size_t>> places;
  for (std::size_t at = 0; (at = text.find_first_of("0123456789", at)) != std::string::npos;) {
    const std::size_t end = text.find_first_not_of("0123456789.e+-", at);
    if (std::string_view(":,[").find(text[at - 1]) != std::string_view::npos)
      places.emplace_back(at, end - at);
    at = end;
  }
  return places;
}

TEST(RecordMutation, Numbers) {
  constexpr std::array kHostile = {"-1",
                                   "0",
                                   "1e308",
                                   "-1e308",
                                   "2147483647",
                                   "2147483648",
                                   "-2147483648",
                                   "9223372036854775807",
                                   "-9223372036854775808",
                                   "18446744073709551615",
                                   "500000000",
                                   "1e-320",
                                   "0.5",
                                   "null",
                                   "\"NaN\"",
                                   "\"Infinity\""};
  const std::string valid = sample_record();
  const auto places = numbers_of(valid);
  ASSERT_GT(places.size(), 100U);
  std::mt19937 draw(1);
  unsigned long told = 0;
  for (unsigned long round = 0; round < test::num_mutations(); ++round) {
    const auto [at, size] = places[draw() % places.size()];
    std::string record = valid;
    record.replace(at, size, kHostile[draw() % kHostile.size()]);
    SCOPED_TRACE(record.substr(at > 40 ? at - 40 : 0, 100));
    try {
      make_pages(record);
      ++told;
    } catch (const Error&) {
    }
  }
  EXPECT_GT(told, test::num_mutations() / 10);
}

}  // namespace
}  // namespace kiln
