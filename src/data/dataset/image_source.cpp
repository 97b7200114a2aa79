#include "data/dataset/image_source.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/error.h"
#include "base/files.h"
#include "data/dataset/listing.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kPieceBytes = 1 << 16;

Dataset unlabeled_files(const fs::path& root, const std::string& name) {
  Dataset set;
  set.kind = Dataset::Kind::kFileList;
  set.root = root.empty() ? fs::path(".") : root;
  set.name = name;
  return set;
}

}  // namespace

Dataset read_every_image(const fs::path& path, const std::string& name,
                         const RecordOptions& records) {
  const std::string file = path.filename().string();
  if (!is_file(path) || is_dataset_file(file))
    return read_of_any_kind({.root = path, .name = name, .every_image = true, .records = records});
  Dataset set = unlabeled_files(path.parent_path(), name);
  set.samples.add(file);
  return set;
}

Dataset read_image_files(const std::vector<std::string>& paths, const std::string& name) {
  Dataset set = unlabeled_files("", name);
  for (const std::string& path : paths) {
    if (!is_file(path) || is_dataset_file(path))
      throw Error(
          ErrorCode::kInvalidDataset,
          name + " " + quoted_path(path) +
              (is_there(path) ? ": of several paths each must be an image file. Give it alone."
                              : ": it does not exist. Check the path." + did_you_mean_path(path)));
    set.samples.add(path);
  }
  return set;
}

TaskKind task_of_labels(TaskKind task, const std::vector<std::string>& classes) {
  const bool has_marks = std::ranges::any_of(
      classes, [](auto& name) { return name.find_first_of(";|[{") != name.npos; });
  return task == TaskKind::kSingleLabel && !has_marks ? TaskKind::kAuto : task;
}

TrueLabels::TrueLabels(const Dataset& set, const std::vector<std::string>& classes) : set_(set) {
  for (const std::string& name : set.classes)
    is_known_.push_back(std::ranges::count(classes, name) > 0);
  using Kind = Dataset::Kind;
  const bool by_folder = set.kind == Kind::kClassFolders || set.kind == Kind::kArchives;
  any_ = std::ranges::count(is_known_, true) > 0 || (set.labeled() && !by_folder);
}

bool TrueLabels::is_known(std::size_t i) const {
  const int label = any_ ? set_.samples.label(i) : -1;
  bool known = label >= 0;
  set_.for_each_class(label, [&](int id) { known &= is_known_[static_cast<std::size_t>(id)]; });
  return known;
}

UnknownLabels TrueLabels::unknown() const {
  UnknownLabels unknown;
  std::vector<bool> is_met(set_.classes.size());
  for (std::size_t i = 0; any_ && i < set_.samples.size(); ++i) {
    if (set_.samples.label(i) < 0 || is_known(i)) continue;
    set_.for_each_class(set_.samples.label(i), [&](int id) { is_met[id] = true; });
    ++unknown.num_images;
  }
  for (std::size_t id = 0; id < is_met.size(); ++id)
    if (is_met[id] && !is_known_[id]) unknown.names.push_back(set_.classes[id]);
  return unknown;
}

std::string fault_of_numbers(const Dataset& set, const std::vector<std::string>& classes,
                             std::optional<int> first_label) {
  if (first_label || !set.first_label || !std::ranges::all_of(set.classes, is_class_number) ||
      !std::ranges::all_of(classes, is_class_number))
    return {};
  const auto is_known = [&](std::int64_t number) {
    return std::ranges::count(classes, std::to_string(number)) > 0;
  };
  const std::vector<long long> counts = counts_by_class(set, set.classes.size());
  std::vector<std::int64_t> found;
  for (std::size_t id = 0; id < counts.size(); ++id)
    if (counts[id] > 0) found.push_back(class_number(set.classes[id]));
  if (found.empty()) return {};
  const auto [least, most] = std::ranges::minmax(found);
  const bool are_lower = least == 0 && !is_known(0) && is_known(1);
  const bool are_higher = least > 0 && is_known(0) && !is_known(most) && is_known(most - 1);
  if (!are_lower && !are_higher) return {};
  const std::string least_text = std::to_string(least);
  return "its labels are " + least_text + " to " + std::to_string(most) +
         ", but the classes of the model are numbers that begin with " + (are_lower ? "1" : "0") +
         ". Give --classes FILE with the model's classes in the order of the labels, or "
         "--first-label " +
         least_text + " if the numbers are the same classes.";
}

FileList::FileList(std::string list, fs::path root)
    : list_(std::move(list)), root_(std::move(root)) {
  file_ = list_ == "-" ? STDIN_FILENO : ::open(list_.c_str(), O_RDONLY | O_CLOEXEC);
  if (file_ < 0) fail("cannot be read: " + system_words(errno) + "." + did_you_mean_path(list_));
}

FileList::~FileList() {
  if (file_ > STDIN_FILENO) ::close(file_);
}

bool FileList::can_be_read_again() const {
  struct stat info {};
  return list_ != "-" && ::fstat(file_, &info) == 0 && S_ISREG(info.st_mode);
}

bool FileList::next(std::size_t most, Dataset& set) {
  set = unlabeled_files(root_, "Images");
  while (true) {
    add_paths(most, set.samples);
    const bool has_some = !set.samples.empty();
    pollfd state{.fd = file_, .events = POLLIN, .revents = 0};
    const auto would_wait = [&] { return ::poll(&state, 1, 0) <= 0; };
    if (set.samples.size() == most || at_end_ || (has_some && would_wait())) return has_some;
    read_more();
  }
}

void FileList::read_more() {
  const std::size_t before = text_.size();
  text_.resize(before + kPieceBytes);
  ssize_t got = -1;
  do {
    got = ::read(file_, text_.data() + before, kPieceBytes);
  } while (got < 0 && errno == EINTR);
  if (got < 0) fail("cannot be read: " + system_words(errno) + ".");
  text_.resize(before + static_cast<std::size_t>(got));
  at_end_ = got == 0;
}

// Takes whole paths. At the end of the list, the last one needs no end.
void FileList::add_paths(std::size_t most, SampleTable& samples) {
  const bool has_zero = text_.find('\0') != std::string::npos;
  if (!end_of_path_ && has_zero) end_of_path_ = '\0';
  const std::size_t first = text_.find_first_of("\r\n");
  const bool has_next = first != std::string::npos && first + 1 < text_.size();
  if (!end_of_path_ && (has_next || at_end_))  // CR alone, or before a line feed
    end_of_path_ =
        text_[std::min(first, text_.size())] == '\r' && (!has_next || text_[first + 1] != '\n')
            ? '\r'
            : '\n';
  const char mark = end_of_path_.value_or('\n');
  if (mark != '\0' && has_zero)
    fail("has a zero byte after lines: end all its paths with newlines, or all with zero bytes.");
  std::size_t begin = 0;
  while (samples.size() < most && begin < text_.size()) {
    const std::size_t found = text_.find(mark, begin);
    if (found == std::string::npos && !at_end_) break;
    const std::size_t end = std::min(found, text_.size());
    std::string_view path = std::string_view(text_).substr(begin, end - begin);
    if (mark == '\n' && path.ends_with('\r')) path.remove_suffix(1);
    if (mark != '\0' && !has_begun_) path = without_byte_order_mark(path);
    if (path.size() > kMaxPathBytes) break;
    has_begun_ = true;
    if (!path.empty()) samples.add(mark == '\0' ? std::string(path) : name_of(path));
    begin = std::min(end + 1, text_.size());
  }
  text_.erase(0, begin);
  if (samples.size() < most && text_.find(mark) > kMaxPathBytes && text_.size() > kMaxPathBytes)
    fail("has a line longer than 4096 bytes: give one path per line.");
}

std::string FileList::name_of(std::string_view path) const {
  return meant_name(std::string(path),
                    [&](const std::string& name) { return is_there(root_ / name); });
}

void FileList::fail(const std::string& fault) const {
  throw Error(ErrorCode::kUserError, "--files-from " + quoted_path(list_) + " " + fault);
}

}  // namespace kiln
