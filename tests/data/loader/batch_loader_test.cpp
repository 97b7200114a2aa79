#include "data/loader/batch_loader.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/content_hash.h"
#include "base/files.h"
#include "data/make_image.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

// Images of one color each: red is the index, which identifies the images of a batch.
class BatchLoaderTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("kiln_batch_loader_test_" + std::to_string(::getpid()));
    fs::create_directories(folder_);
    set_.root = folder_;
    for (int i = 0; i < kImages; ++i) {
      const fs::path path = folder_ / (std::to_string(i) + ".png");
      write(path, test::encode_png(test::plain(8, 8, static_cast<std::uint8_t>(i), 7, 9)));
      set_.samples.push_back(
          {.file_name = path.filename().string(), .label = i % 3, .id = i, .size = {}});
    }
  }
  void TearDown() override { fs::remove_all(folder_); }

  static void write(const fs::path& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
  }

  BatchPlan plan() const {
    BatchPlan plan;
    plan.order.resize(set_.samples.size());
    std::iota(plan.order.rbegin(), plan.order.rend(), 0U);  // backwards
    plan.batch_size = 6;
    plan.pixels.output = {8, 8};
    plan.num_slots = 2;
    return plan;
  }

  static constexpr int kImages = 40;
  fs::path folder_;
  Dataset set_;
};

TEST_F(BatchLoaderTest, ReturnsEveryImageInOrderWithAnyNumberOfThreads) {
  for (const int threads : {1, 2, 7}) {
    LoaderThreads pool({.num_decoders = threads});
    const auto loader = load_batches(set_, pool, plan());
    EXPECT_EQ(loader->num_batches(), 7);
    std::uint32_t expected = kImages;
    for (int b = 0; b < 7; ++b) {
      const HostBatch* batch = loader->next();
      ASSERT_NE(batch, nullptr);
      ASSERT_EQ(batch->count, b < 6 ? 6 : 4);
      EXPECT_EQ(batch->nominal, batch->count);
      for (int i = 0; i < batch->count; ++i) {
        --expected;
        EXPECT_EQ(batch->samples[i], expected);
        EXPECT_EQ(batch->labels[i], expected % 3);
        EXPECT_EQ(batch->pixels[i * 8 * 8 * 3], expected);
        EXPECT_EQ(batch->pixels[(i + 1) * 8 * 8 * 3 - 1], 9);
      }
    }
    EXPECT_EQ(loader->next(), nullptr);
    EXPECT_EQ(loader->next(), nullptr);
    EXPECT_TRUE(loader->take_faults().empty());
  }
}

// Who still reads a batch, such as a GPU that copies it, is waited for before it is filled again.
TEST_F(BatchLoaderTest, ABatchIsNotFilledAgainWhileItIsRead) {
  int waits = 0;
  {
    LoaderThreads pool({.num_decoders = 2});
    BatchPlan tight = plan();
    tight.num_slots = 1;
    const auto loader = load_batches(set_, pool, tight);
    while (const HostBatch* batch = loader->next()) {
      const std::uint8_t* pixels = batch->pixels.get();
      batch->wait_for_reader = [&waits, pixels, first = *pixels] {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        EXPECT_EQ(*pixels, first);
        ++waits;
      };
    }
    EXPECT_EQ(waits, 6);
  }
  EXPECT_EQ(waits, 7);
}

// The bytes of every batch, one after the other.
std::vector<std::uint8_t> all_pixels(Dataset& set, LoaderThreads& pool, BatchPlan plan,
                                     ImageCache* cache = nullptr) {
  const auto image_bytes = static_cast<std::size_t>(plan.pixels.output.height) *
                           static_cast<std::size_t>(plan.pixels.output.width) * 3;
  const auto loader = load_batches(set, pool, std::move(plan), cache);
  std::vector<std::uint8_t> pixels;
  while (const HostBatch* batch = loader->next()) {
    const std::uint8_t* begin = batch->pixels.get();
    pixels.insert(pixels.end(), begin,
                  begin + static_cast<std::size_t>(batch->count) * image_bytes);
  }
  return pixels;
}

// Most of such a pass is waiting, so that there are more threads in the next.
TEST_F(BatchLoaderTest, LoadsAlikeWhileTheNumberOfThreadsChanges) {
  LoaderThreads pool({.num_decoders = 1, .max_decoders = 4});
  const std::vector<std::uint8_t> first = all_pixels(set_, pool, plan());
  pool.adapt();
  EXPECT_EQ(pool.num_decoders(), 2);
  EXPECT_EQ(all_pixels(set_, pool, plan()), first);
}

TEST_F(BatchLoaderTest, AugmentsAlikeWithAnyNumberOfThreads) {
  for (std::size_t i = 0; i < set_.samples.size(); ++i)
    write(folder_ / set_.samples.file_name(i),
          test::encode_jpeg(test::noise(20 + static_cast<int>(i % 7), 30)));
  for (const Augment augment : {Augment::kFlip, Augment::kStandard, Augment::kStrong}) {
    BatchPlan drawing = plan();
    LoaderThreads one({.num_decoders = 1});
    drawing.pixels = {.output = {16, 16}, .short_side = 18, .augment = augment};
    drawing.seed = 4;
    drawing.epoch = 2;
    const std::vector<std::uint8_t> expected = all_pixels(set_, one, drawing);
    ASSERT_EQ(expected.size(), kImages * 16 * 16 * 3U);
    for (const int threads : {2, 4, 7}) {
      LoaderThreads several({.num_decoders = threads});
      EXPECT_EQ(all_pixels(set_, several, drawing), expected);
    }
    drawing.epoch = 3;
    EXPECT_NE(all_pixels(set_, one, drawing), expected);
    drawing.epoch = 2;
    drawing.seed = 5;
    EXPECT_NE(all_pixels(set_, one, drawing), expected);
  }
}

TEST_F(BatchLoaderTest, FloatsAreTheNormalizedPixelsOfGoodImages) {
  write(folder_ / "20.png", "<html>");
  BatchPlan floats = plan();
  floats.scaling = Normalization{{0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}};
  LoaderThreads pool({.num_decoders = 3});
  ImageCache cache(CacheKind::kDecoded, set_.samples.size(), 1 << 20);
  for (ImageCache* used : {static_cast<ImageCache*>(nullptr), &cache, &cache}) {
    const auto bytes_loader = load_batches(set_, pool, plan());
    const auto floats_loader = load_batches(set_, pool, floats, used);
    while (const HostBatch* bytes = bytes_loader->next()) {
      const HostBatch* scaled = floats_loader->next();
      ASSERT_EQ(scaled->samples, bytes->samples);
      const std::size_t num_pixels = bytes->samples.size() * 8 * 8;
      std::vector<float> expected(num_pixels * 3);
      normalize_pixels(bytes->pixels.get(), num_pixels, *floats.scaling, expected.data());
      EXPECT_TRUE(std::equal(expected.begin(), expected.end(), scaled->floats()));
    }
    EXPECT_EQ(floats_loader->take_faults().size(), 1U);
  }
}

TEST_F(BatchLoaderTest, BadImagesAreLeftOutAndNamed) {
  write(folder_ / "38.png", "<html>");
  fs::remove(folder_ / "36.png");
  write(folder_ / "20.png", test::encode_png(test::plain(8, 9, 1, 2, 3)));
  const std::string jpeg = test::encode_jpeg(test::gradient(64, 64));
  LoaderThreads pool({.num_decoders = 3});
  const auto loader = load_batches(set_, pool, plan());
  const HostBatch* batch = loader->next();
  EXPECT_EQ(batch->nominal, 6);
  ASSERT_EQ(batch->count, 4);
  EXPECT_EQ(batch->samples, (std::vector<std::uint32_t>{39, 37, 35, 34}));
  for (int i = 0; i < 4; ++i) EXPECT_EQ(batch->pixels[i * 8 * 8 * 3], batch->samples[i]);
  const std::vector<BadImage> first = loader->take_faults();
  ASSERT_EQ(first.size(), 2U);
  EXPECT_EQ(first[0].sample, 38U);
  EXPECT_EQ(first[0].fault, "not an image: it is HTML, such as a web server's error page");
  EXPECT_FALSE(first[0].damaged);
  EXPECT_EQ(first[1].sample, 36U);
  EXPECT_EQ(first[1].fault, "file missing");
  while (loader->next() != nullptr) {
  }
  EXPECT_TRUE(loader->take_faults().empty()) << "another size is resized";
}

TEST_F(BatchLoaderTest, DamagedImagesAreUsedAndNamed) {
  const std::string jpeg = test::encode_jpeg(test::gradient(64, 64));
  write(folder_ / "39.png", jpeg.substr(0, jpeg.size() * 9 / 10));
  LoaderThreads pool({.num_decoders = 2});
  BatchPlan resizing = plan();
  resizing.pixels.short_side = 9;
  const auto loader = load_batches(set_, pool, resizing);
  EXPECT_EQ(loader->next()->count, 6);
  const std::vector<BadImage> faults = loader->take_faults();
  ASSERT_EQ(faults.size(), 1U);
  EXPECT_TRUE(faults[0].damaged);
  EXPECT_EQ(faults[0].sample, 39U);
}

TEST_F(BatchLoaderTest, StopsBeforeTheEnd) {
  LoaderThreads pool({.num_decoders = 4});
  const auto untouched = load_batches(set_, pool, plan());
  const auto begun = load_batches(set_, pool, plan());
  EXPECT_NE(begun->next(), nullptr);
  EXPECT_GE(begun->wait_seconds(), 0.0);
}

TEST_F(BatchLoaderTest, RethrowsFaultsNotCausedByAnImage) {
  LoaderThreads pool({.num_decoders = 2});
  BatchPlan impossible = plan();
  impossible.pixels.output = {1 << 30, 1 << 30};  // larger than any address space
  impossible.batch_size = 3;
  const auto loader = load_batches(set_, pool, impossible);
  EXPECT_ANY_THROW(loader->next());
}

TEST_F(BatchLoaderTest, ReadAheadAndCacheDoNotChangeResults) {
  for (std::size_t i = 0; i < set_.samples.size(); ++i)
    write(folder_ / set_.samples.file_name(i), test::encode_jpeg(test::noise(20, 30)));
  const Augment all_but_crop = parse_augment("flip,vflip,rotate90,color,trivial,erase");
  for (const Augment augment : {Augment::kNone, Augment::kFlip, Augment::kStandard, all_but_crop}) {
    BatchPlan wanted = plan();
    wanted.pixels = {.output = {16, 16}, .short_side = 18, .augment = augment};
    wanted.epoch = 3;
    LoaderThreads plain({.num_decoders = 2, .read_ahead = 0});
    const std::vector<std::uint8_t> expected = all_pixels(set_, plain, wanted);
    LoaderThreads ahead({.num_decoders = 3, .read_ahead = 7});
    EXPECT_EQ(all_pixels(set_, ahead, wanted), expected);
    for (const CacheKind kind : {CacheKind::kBytes, CacheKind::kDecoded}) {
      if (kind == CacheKind::kDecoded && augment == Augment::kStandard) continue;
      for (const std::size_t limit : {std::size_t{6000}, std::size_t{1} << 22}) {
        ImageCache cache(kind, set_.samples.size(), limit);
        for (const std::uint64_t epoch : {2U, 3U}) {  // the first one fills it
          wanted.epoch = epoch;
          const auto pixels = all_pixels(set_, ahead, wanted, &cache);
          EXPECT_EQ(pixels == expected, epoch == 3 || augment == Augment::kNone);
        }
        EXPECT_LE(cache.memory_bytes(), limit);
        EXPECT_EQ(cache.num_kept() == set_.samples.size(), limit > 6000);
        EXPECT_GT(cache.num_kept(), 0U);
      }
    }
  }
}

// Files of 1 MiB, of which only the first ones are decoded.
TEST_F(BatchLoaderTest, AllLoadersShareOneReadAheadLimit) {
  constexpr std::size_t kFile = std::size_t{1} << 20, kReaders = 16;
  fs::resize_file(folder_ / "0.png", kFile);
  Dataset large;
  large.root = folder_;
  for (int i = 0; i < 150; ++i)
    large.samples.push_back({.file_name = "0.png", .label = 0, .id = i, .size = {}});
  BatchPlan wanted = plan();
  wanted.order.resize(large.samples.size());
  std::iota(wanted.order.begin(), wanted.order.end(), 0U);
  wanted.num_slots = 1;
  LoaderThreads pool({.num_decoders = 2, .read_ahead = 256});
  {
    const auto first = load_batches(large, pool, wanted),
               second = load_batches(large, pool, wanted),
               third = load_batches(large, pool, wanted);
    while (pool.read_ahead_bytes() < LoaderThreads::kReadAheadBytes) std::this_thread::yield();
    for (int i = 0; i < 50; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(4));
      EXPECT_LE(pool.read_ahead_bytes(), LoaderThreads::kReadAheadBytes + kReaders * 2 * kFile);
    }
  }
  EXPECT_EQ(pool.read_ahead_bytes(), 0U);
}

// The same with and without cache and read-ahead; what cannot be decoded has none.
TEST_F(BatchLoaderTest, EveryDecodedImageGetsTheHashOfItsBytes) {
  write(folder_ / "20.png", "<html>");
  fs::copy_file(folder_ / "3.png", folder_ / "4.png", fs::copy_options::overwrite_existing);
  for (const CacheKind kind : {CacheKind::kNone, CacheKind::kBytes, CacheKind::kDecoded})
    for (const int read_ahead : {0, 7}) {
      Dataset set;
      set.root = set_.root;
      set.samples = set_.samples;
      EXPECT_EQ(set.samples.hash(3), 0U);
      LoaderThreads pool({.num_decoders = 3, .read_ahead = read_ahead});
      ImageCache cache(kind, set.samples.size(), 1 << 20);
      for (int epoch = 0; epoch < 2; ++epoch) all_pixels(set, pool, plan(), &cache);
      for (std::size_t i = 0; i < set.samples.size(); ++i) {
        const std::string bytes = read_file(folder_ / set.samples.file_name(i));
        EXPECT_EQ(set.samples.hash(i), i == 20 ? 0 : content_hash(bytes)) << i;
      }
      EXPECT_EQ(set.samples.hash(3), set.samples.hash(4));
      EXPECT_NE(set.samples.hash(3), set.samples.hash(5));
    }
}

TEST_F(BatchLoaderTest, WhatIsKeptNeedsNoFile) {
  LoaderThreads pool({.num_decoders = 2, .read_ahead = 5});
  ImageCache cache(CacheKind::kDecoded, set_.samples.size(), 1 << 20);
  const std::vector<std::uint8_t> expected = all_pixels(set_, pool, plan(), &cache);
  for (const fs::path& file : fs::directory_iterator(folder_)) fs::remove(file);
  EXPECT_EQ(all_pixels(set_, pool, plan(), &cache), expected);
  const auto without = load_batches(set_, pool, plan());
  EXPECT_EQ(without->next()->count, 0);
  EXPECT_EQ(without->take_faults().front().fault, "file missing");
}

TEST_F(BatchLoaderTest, AWaitingLoaderIsReadyWhenItsTurnComes) {
  LoaderThreads pool({.num_decoders = 1});
  const auto first = load_batches(set_, pool, plan());
  const auto second = load_batches(set_, pool, plan());
  for (int i = 0; i < 7; ++i) ASSERT_NE(first->next(), nullptr);
  EXPECT_EQ(first->next(), nullptr);
  int batches = 0;
  while (second->next() != nullptr) ++batches;
  EXPECT_EQ(batches, 7);
}

TEST_F(BatchLoaderTest, AnEmptyOrderHasNoBatch) {
  LoaderThreads pool({.num_decoders = 2});
  BatchPlan empty = plan();
  empty.order.clear();
  const auto loader = load_batches(set_, pool, empty);
  EXPECT_EQ(loader->num_batches(), 0);
  EXPECT_EQ(loader->next(), nullptr);
}

TEST_F(BatchLoaderTest, RepeatedImagesAreAugmentedDifferently) {
  write(folder_ / set_.samples.file_name(3), test::encode_png(test::noise(20, 30)));
  BatchPlan wanted = plan();
  wanted.order.assign(12, 3);
  wanted.pixels = {.output = {16, 16}, .short_side = 18, .augment = Augment::kStandard};
  LoaderThreads pool({.num_decoders = 3});
  const std::size_t image = std::size_t{16} * 16 * 3;
  const auto num_different = [&](const std::vector<std::uint8_t>& pixels) {
    std::set<std::vector<std::uint8_t>> different;
    for (std::size_t at = 0; at < pixels.size(); at += image)
      different.emplace(pixels.begin() + static_cast<std::ptrdiff_t>(at),
                        pixels.begin() + static_cast<std::ptrdiff_t>(at + image));
    return different.size();
  };
  const std::vector<std::uint8_t> alike = all_pixels(set_, pool, wanted);
  EXPECT_EQ(num_different(alike), 1U);
  wanted.repeats.resize(12);
  std::iota(wanted.repeats.begin(), wanted.repeats.end(), 0U);
  const std::vector<std::uint8_t> pixels = all_pixels(set_, pool, wanted);
  EXPECT_EQ(num_different(pixels), 12U);
  EXPECT_TRUE(std::equal(pixels.begin(), pixels.begin() + image, alike.begin()));
}

}  // namespace
}  // namespace kiln
