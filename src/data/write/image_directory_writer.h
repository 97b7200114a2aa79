// Writes an ImageDirectory as the designer's converter does. Image bytes are copied, never
// re-encoded.
//
// The folder may be a mount point: its files are put in place together, `_meta.yaml` last
// (base/output_folder.h).
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/output_folder.h"
#include "data/dataset/dataset.h"

namespace kiln {

// Creates `folder` and its parents. Error kFailedToWriteOutputs if it cannot be created or written
// (a probe file is written and removed), or if it is `input`, inside it or a parent of it.
void prepare_output_folder(const std::filesystem::path& folder, const std::filesystem::path& input);

// Checks `folder` before work starts. Error kFailedToWriteOutputs as for prepare_output_folder(),
// and if it contains anything except an earlier ImageDirectory, leftovers of a killed run, names
// that begin with a dot, and lost+found. Creates parents, removes leftovers.
void prepare_image_output(const std::filesystem::path& folder, const std::filesystem::path& input);

// Images that are written instead of those that are stored.
struct ChangedImages {
  std::string extension;  // of every file, instead of its own: ".png"
  // The contents of the file for image `i`. Any thread.
  std::function<std::string(std::size_t i)> contents;
  int num_threads = 1;
  // Hears now and then how many are done, from the calling thread.
  std::function<void(std::size_t num_done)> tell;
};

// An ImageDirectory whose files are complete under temporary names in a prepared folder, so that
// several may appear together, or none. An ImageDirectory keeps its list; class folders become
// `image/<class id>_<n><extension>`; other kinds keep their paths below `image/`. Error
// kInvalidDataset if an image cannot be read, kFailedToWriteOutputs if the output cannot be
// written.
class ImageDirectoryOutput {
 public:
  ImageDirectoryOutput(const Dataset& set, const std::filesystem::path& folder);
  // Only the images with keep[i], as they are in the whole: name, id and line of the list. `set`
  // is as read_dataset() gave it.
  ImageDirectoryOutput(const Dataset& set, const std::vector<bool>& keep,
                       const std::filesystem::path& folder);
  // With changed images, as write_changed_images() has them.
  ImageDirectoryOutput(const Dataset& set, const ChangedImages& changed,
                       const std::filesystem::path& folder);
  void put_in_place();  // once

 private:
  // The text files beside the images.
  struct Texts {
    std::string list, schema, samples;
  };
  void complete(const Dataset& set, const Texts& texts);
  void add_texts(const Texts& texts);

  OutputFolder locked_;
  std::vector<std::filesystem::path> earlier_;  // files of an earlier ImageDirectory
  std::vector<DurableFile> files_;
};

// Writes `set` as an ImageDirectory into a prepared `folder`, with the errors of
// ImageDirectoryOutput.
void write_image_directory(const Dataset& set, const std::filesystem::path& folder);

// As write_image_directory(), with changed images: the schema, and all else that the list of an
// ImageDirectory says, stay as they are, and `_samples.json` has the images as they are written.
// An image that is listed twice is changed once, as in its first line. Throws what `contents`
// throws, and Error kInvalidDataset if two images would have the same name.
void write_changed_images(const Dataset& set, const std::filesystem::path& folder,
                          const ChangedImages& changed);

}  // namespace kiln
