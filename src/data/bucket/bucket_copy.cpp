#include "data/bucket/bucket_copy.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string_view>
#include <thread>

#include "base/digest.h"
#include "base/error.h"
#include "base/system.h"
#include "base/text.h"
#include "base/transfer.h"
#include "base/url.h"
#include "data/dataset/listing.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

using Objects = std::vector<BucketObject>;

constexpr int kMostReads = 32, kMostRounds = 3;
constexpr std::size_t kHexMd5 = 32, kBase64Md5 = 24;  // characters
constexpr std::int64_t kSecond = 1'000'000'000;       // in nanoseconds

[[noreturn]] void fail(const std::string& url, const std::string& reason) {
  throw Error(ErrorCode::kFailedToDownloadFiles,
              "'" + url + "' cannot be read: " + reason +
                  ". Check its name, and what the cloud's own tool says with these credentials.");
}

// Calls `use`, and gives Arrow's faults the URL.
template <typename Use>
auto with_url(const std::string& url, Use&& use) try {
  return use();
} catch (const std::runtime_error& fault) {
  const std::string_view text = fault.what();  // Google's tells all twice
  fail(url, std::string(trimmed(text.substr(0, text.find(" error_info={")), " .\n")));
}

std::unique_ptr<BucketReader> opened(const std::string& url) {
  const ArrowModule& module = arrow_module(
      "Buckets need pip's extra (`pip install 'kiln-trainer[parquet]'`), or Kiln installed again.");
  return with_url(url, [&] { return module.open_bucket(url); });
}

Objects listed(BucketReader& bucket, const std::string& url) {
  Objects objects = with_url(url, [&] { return bucket.list(); });
  if (objects.empty()) fail(url, "there is nothing of that name");
  std::ranges::sort(objects, {}, &BucketObject::name);
  return objects;
}

struct Copying {
  const std::string& url;
  const fs::path& place;
  Log& log;
  const std::unique_ptr<BucketReader> bucket = opened(url);

  fs::path file_of(const BucketObject& object) const {
    return object.name.empty() ? place : place / object.name;
  }

  bool is_copied(const BucketObject& object) const {
    struct stat file {};
    return ::lstat(file_of(object).c_str(), &file) == 0 && S_ISREG(file.st_mode) &&
           file.st_size == object.size &&
           file.st_mtim.tv_sec * kSecond + file.st_mtim.tv_nsec == object.time_ns;
  }

  // Without a//b and ../a, and a where there is a/b.
  Objects possible(const Objects& objects, bool is_first) const {
    Objects good;
    std::vector<std::string> odd;
    for (const BucketObject& object : objects) {
      const auto next =
          std::ranges::lower_bound(objects, object.name + "/", {}, &BucketObject::name);
      const bool is_folder = next != objects.end() && next->name.starts_with(object.name + "/");
      if (object.name.empty() || (is_plain_path(object.name) && !is_folder))
        good.push_back(object);
      else
        odd.push_back(object.name);
    }
    if (is_first && !odd.empty())
      log.warning("Left out of '" + url +
                  "', since no file can have that name: " + quoted_names(odd, 3));
    return good;
  }

  // What is not in the bucket: gone objects, and leftovers of a process that was killed.
  void remove_others(const Objects& objects) const {
    const std::string top = place.string();
    std::vector<fs::path> others;  // folders, too, which are removed if they are empty then
    for (const auto& entry : fs::recursive_directory_iterator(place.parent_path())) {
      const std::string path = entry.path().string();
      const std::string name = path.substr(std::min(top.size() + 1, path.size()));
      if (entry.is_directory() || !path.starts_with(top) ||
          !std::ranges::binary_search(objects, name, {}, &BucketObject::name))
        others.push_back(entry.path());
    }
    for (; !others.empty(); others.pop_back()) remove_quietly(others.back());
  }

  void fetch_all(const Objects& objects, std::size_t num_listed) const {
    std::uint64_t total = 0, received = 0;
    for (const BucketObject& object : objects) {
      total += static_cast<std::uint64_t>(object.size);
      make_folders(file_of(object).parent_path());
    }
    require_room(place.parent_path(), total, "The copy of '" + url + "'",
                 "Free some space there, or give --cache-path.");
    log.info("Copying '" + url + "' to " + quoted_path(place) + ": " +
             grouped(static_cast<long long>(objects.size())) + " of " +
             plural(static_cast<long long>(num_listed), "object", "objects") + ", " +
             bytes_text(static_cast<long long>(total)));
    Transfer transfer(log, total);
    std::mutex mutex;
    in_parallel(objects.size(), kMostReads, [&](std::size_t i) {
      fetch(objects[i], [&](std::size_t size) {
        const std::scoped_lock lock(mutex);
        transfer.show(received += size);
      });
    });
    transfer.end(received);
  }

  // Nothing is left of an object that is gone or has changed.
  void fetch(const BucketObject& object, const std::function<void(std::size_t)>& told) const {
    const fs::path file = file_of(object);
    for (std::string found, earlier;; earlier = found) {
      DurableFile copy(file);
      Digest md5(Digest::kMd5);
      const auto stated = with_url(url, [&] {
        return bucket->read(object, [&](std::string_view bytes) {
          copy.write(bytes);
          md5.add(bytes);
          told(bytes.size());
        });
      });
      if (!stated) return;
      found = md5.bytes();
      const std::string_view tag = trimmed(*stated, "\"");
      const bool is_md5 = tag.size() == kHexMd5 || tag.size() == kBase64Md5;
      // What comes twice is right: what S3 says of an encrypted object is none.
      if (is_md5 && tag != hex_text(found) && tag != base64(found) && found != earlier) {
        if (!earlier.empty()) fail(url, "'" + object.name + "' has other bytes each time");
        continue;
      }
      copy.finish();
      const timespec time{object.time_ns / kSecond, object.time_ns % kSecond};
      const timespec times[] = {time, time};
      if (::utimensat(AT_FDCWD, copy.temporary_path().c_str(), times, 0) != 0)
        fail_to_write(file, errno);
      return copy.commit();
    }
  }

  void run() const {
    for (int round = 0;; ++round) {
      const Objects all = listed(*bucket, url);
      Objects objects = possible(all, round == 0);
      remove_others(objects);
      std::erase_if(objects, [&](const BucketObject& object) { return is_copied(object); });
      if (objects.empty())
        return log.info("The copy of '" + url + "' is complete: " + quoted_path(place));
      if (round == kMostRounds)
        fail(url, "it changes all the time, as '" + objects.front().name + "' does");
      fetch_all(objects, all.size());
    }
  }
};

// Holds the copy for this process. Whether no other one does, so that it may be changed.
bool hold(const Descriptor& lock, const std::string& url, Log& log) {
  for (bool is_told = false;; is_told = true) {
    if (::flock(lock.number(), LOCK_EX | LOCK_NB) == 0) return true;
    if (errno != EWOULDBLOCK && errno != EINTR) return true;  // the file system has no locks
    if (::flock(lock.number(), LOCK_SH | LOCK_NB) == 0) return false;
    if (!is_told) log.info("Waiting for another process that is copying '" + url + "'.");
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
}

}  // namespace

Objects list_bucket(const std::string& url) {
  return listed(*opened(std::string(trimmed(url, "/"))), url);
}

BucketCopy copy_bucket(const std::string& given, const fs::path& cache, Log& log) {
  const std::string url(trimmed(given, "/")), name = url.substr(url.rfind('/') + 1);
  const fs::path usual = user_cache_folder();
  if (cache.empty() && usual.empty())
    throw Error(ErrorCode::kFailedToWriteOutputs,
                "There is no cache folder for the copy of '" + url +
                    "': give --cache-path, or set XDG_CACHE_HOME to a folder.");
  const std::string source =
      url + "\n" + environment("AWS_ENDPOINT_URL") + "\n" + environment("AWS_ENDPOINT_URL_S3");
  const fs::path folder = (cache.empty() ? usual / "kiln" / "buckets" : fs::absolute(cache)) /
                          hex_digits(fnv1a(source));
  BucketCopy copy{folder / name.substr(0, name.find('@')), Descriptor()};
  make_folders(folder);
  const std::string lock = folder.string() + ".lock";
  copy.in_use = Descriptor(::open(lock.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666));
  if (copy.in_use.number() < 0) fail_to_write(lock, errno);
  if (!hold(copy.in_use, url, log)) {
    log.info("Another process uses the copy of '" + url +
             "', so it is used as it is: " + quoted_path(copy.path));
    return copy;
  }
  Copying{url, copy.path, log}.run();
  ::flock(copy.in_use.number(), LOCK_SH);
  return copy;
}

}  // namespace kiln
