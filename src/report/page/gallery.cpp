#include "report/page/gallery.h"

#include <algorithm>
#include <filesystem>

#include "base/text.h"
#include "record/run_summary.h"
#include "report/page/html.h"

namespace kiln {
namespace {

constexpr std::size_t kFirst = 24, kMostNamed = 1000;            // figures: in the page, in all
constexpr std::size_t kMostDrawn = 200, kMostBytes = 2'600'000;  // pictures, in base64
constexpr std::size_t kMostName = 60;                            // characters
constexpr int kSmallImage = 96;  // pixels: up to here, they are not smoothed

std::string attribute(const char* name, const std::string& value) {
  return value.empty() ? "" : std::string(" ") + name + "=\"" + escaped(value) + "\"";
}

std::string line(const char* style, const std::string& html) {
  return element(std::string("span class=\"") + style + "\"", html);
}

std::string bold_share(double share) {
  return element("b", escaped(percent(share)));
}

std::string images_html(const ShownImage& picture, const std::vector<std::string>& sources,
                        bool is_pair) {
  std::string html;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const Thumbnail& shown = *picture.shown[i];
    if (shown.jpeg.empty()) continue;
    html += std::string("<img") +
            (std::max(shown.height, shown.width) <= kSmallImage ? " class=\"pixels\"" : "") +
            formatted(" width=\"%d\" height=\"%d\"", shown.width, shown.height) + " alt=\"" +
            escaped(i == 0    ? picture.file
                    : is_pair ? "its copy"
                              : "heat map") +
            "\" src=\"" + sources[i] + "\">";
  }
  return html.empty() ? "" : element("div class=\"picture\"", html);
}

std::string caption_html(const ShownImage& picture) {
  const bool is_right = picture.kinds.find("right") != std::string::npos;
  std::string html;
  if (!picture.answer.empty())
    html += line(is_right                ? "correct"
                 : picture.label.empty() ? "answer"
                                         : "guess",
                 name_html(picture.answer, kMostName) +
                     (std::isnan(picture.confidence) ? "" : " " + bold_share(picture.confidence)) +
                     (is_right ? " ✓" : ""));
  if (!picture.label.empty() && !is_right)
    html += line("truth", "labeled " + name_html(picture.label, kMostName));
  for (const std::string& note : picture.notes) html += element("span", prose(note));
  html += element("span class=\"file\" title=\"" + escaped(picture.file) + "\"",
                  name_html(std::filesystem::path(picture.file).filename().string(), kMostName));
  std::string best;
  for (const auto& [name, share] : picture.best)
    best += element("li", name_html(name, kMostName) + " " + bold_share(share));
  if (picture.best.size() > 1) html += element("ol class=\"best\" hidden", best);
  return element("figcaption", html);
}

std::string figure_html(const ShownImage& picture, const std::vector<std::string>& sources,
                        bool is_pair) {
  std::string tag =
      "figure" + attribute("data-file", picture.file) + attribute("data-label", picture.label) +
      attribute("data-answer", picture.answer) + attribute("data-kinds", picture.kinds);
  if (!std::isnan(picture.confidence))
    tag += formatted(" data-confidence=\"%.6g\"", picture.confidence);
  return element(tag, images_html(picture, sources, is_pair) + caption_html(picture)) + "\n";
}

std::string how_many(const Gallery& gallery, std::size_t named) {
  if (named == gallery.pictures.size()) return "";
  return " The first " + grouped(named) + " of " + grouped(gallery.pictures.size()) +
         (*gallery.all_are_in == '\0' ? std::string()
                                      : std::string("; all are in ") + gallery.all_are_in) +
         ".";
}

}  // namespace

std::string gallery_html(const Gallery& gallery, std::vector<OutputFile>* beside) {
  const std::size_t named = std::min(gallery.pictures.size(), kMostNamed);
  std::string first, others;
  std::size_t num_bytes = 0;
  for (std::size_t i = 0; i < named; ++i) {
    const ShownImage& picture = gallery.pictures[i];
    std::vector<std::string> sources;
    std::size_t size = 0;
    for (const Thumbnail* shown : picture.shown)
      size += sources.emplace_back("data:image/jpeg;base64," + base64(shown->jpeg)).size();
    const bool fits = i < kMostDrawn && num_bytes + size <= kMostBytes;
    if (fits) num_bytes += size;
    if (!fits && beside == nullptr) sources.clear();
    for (std::size_t k = 0; !fits && k < sources.size(); ++k) {
      sources[k] = formatted("%s/%s-%zu%c.jpg", kPictureFolder, gallery.id.c_str(), i + 1,
                             static_cast<char>('a' + k));
      if (!picture.shown[k]->jpeg.empty()) beside->push_back({sources[k], picture.shown[k]->jpeg});
    }
    (i < kFirst ? first : others) += figure_html(picture, sources, gallery.is_pairs);
  }
  if (named == 0) return "";
  if (!others.empty()) others = element("template", "\n" + others);
  std::string classes;
  for (const std::string& name : gallery.classes) classes += escaped(name) + "\n";
  return section(
      gallery.id, gallery.heading,
      element("p", gallery.lead + how_many(gallery, named)) +
          element(std::string("div class=\"gallery") + (gallery.is_pairs ? " pairs\"" : "\"") +
                      (gallery.asks ? " data-asks=\"" + classes + "\"" : ""),
                  "\n" + first + others));
}

void remove_pictures(std::string* page) {
  constexpr std::string_view kBegin = "<img", kEnd = ">";
  std::string rest;
  std::size_t from = 0;
  for (std::size_t at = 0; (at = page->find(kBegin, from)) != page->npos;) {
    rest.append(*page, from, at - from);
    from = std::min(page->find(kEnd, at), page->size() - 1) + 1;
  }
  *page = rest.append(*page, from);
}

ShownImage shown_image(const DataRecord& data, const JudgedImage& image, const std::string& word) {
  const bool is_right = image.truth == image.guess, is_labeled = image.truth >= 0 && word.empty();
  ShownImage picture{.file = image.file,
                     .label = is_labeled ? class_name(data, image.truth) : "",
                     .answer = class_name(data, image.guess) + (word.empty() ? "" : " " + word),
                     .confidence = image.confidence,
                     .kinds = !is_labeled ? word
                              : is_right  ? "right"
                                          : "wrong"};
  for (const auto& [label, share] : image.best)
    picture.best.emplace_back(class_name(data, label), share);
  // The second class has more than half of the first one's probability.
  if (word.empty() && image.best.size() > 1 && 2 * image.best[1].share > image.best[0].share)
    picture.kinds += picture.kinds.empty() ? "unsure" : ",unsure";
  for (const Thumbnail* shown : {&image.thumbnail, &image.heat_map})
    if (!shown->jpeg.empty()) picture.shown.push_back(shown);
  return picture;
}

std::string gallery_html(const DataRecord& data, const PictureList& list) {
  Gallery gallery{list.id, list.heading, prose(list.lead), {}};
  for (const JudgedImage& image : list.images)
    gallery.pictures.push_back(shown_image(data, image, list.word));
  return gallery_html(gallery);
}

}  // namespace kiln
