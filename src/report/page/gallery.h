// Galleries of pictures, which are alike on all pages: the first ones stand in the page, further
// ones in a `<template>`, from which its script shows, sorts and filters them.
#pragma once

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "base/output_folder.h"
#include "record/run_record.h"

namespace kiln {

// An image and what is known of it, in plain text.
struct ShownImage {
  std::string file;         // as named in the dataset
  std::string label;        // that it was given; may be empty
  std::string answer = {};  // the model's; may be empty
  double confidence = NAN;
  std::string kinds = {};                                 // for a filter: "wrong,unsure"
  std::vector<std::string> notes = {};                    // lines below it
  std::vector<std::pair<std::string, double>> best = {};  // the likeliest classes
  std::vector<const Thumbnail*> shown = {};  // the image; with a heat map, or its copy beside it
};

struct Gallery {
  std::string id, heading, lead;          // `lead`: HTML
  std::vector<ShownImage> pictures = {};  // in the order to show them
  const char* all_are_in = "";  // names the file that lists those beyond the most that a page has
  bool is_pairs = false;        // two images beside each other
  bool asks = false;            // for a decision on each label, which the script collects
  std::vector<std::string> classes = {};  // to choose from, besides those of the pictures
};

// The folder beside a page for pictures that it has no room for.
inline constexpr const char* kPictureFolder = "pictures";

// A `<section>`; empty without pictures. At most 200 images and 2.6 MB of them, so that a page with
// three galleries has 8 MB. Others, 1,000 in all, are added to `beside`, as files in
// kPictureFolder; without it, they are named without pictures.
std::string gallery_html(const Gallery& gallery, std::vector<OutputFile>* beside = nullptr);

// Removes the pictures from a page with galleries; their captions stay.
void remove_pictures(std::string* page);

// The answer of a model. Classes are those of `data`. `word`: PictureList::word.
ShownImage shown_image(const DataRecord& data, const JudgedImage& image,
                       const std::string& word = "");
std::string gallery_html(const DataRecord& data, const PictureList& list);

}  // namespace kiln
