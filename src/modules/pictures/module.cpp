#include "modules/pictures/module.h"

#include <algorithm>
#include <cmath>
#include <opencv2/core.hpp>
#include <opencv2/imgproc.hpp>

namespace kiln {
namespace {

// A view: OpenCV does not change what it reads.
cv::Mat mat_of(const Picture& picture) {
  return {picture.height, picture.width, CV_8UC3, const_cast<std::uint8_t*>(picture.pixels.data())};
}

Picture picture_of(const cv::Mat& mat) {
  Picture picture{mat.rows, mat.cols, std::vector<std::uint8_t>(3 * mat.total())};
  cv::Mat view = mat_of(picture);
  mat.copyTo(view);
  return picture;
}

Picture shrunk(Picture picture, int longest_side) {
  const int longest = std::max(picture.height, picture.width);
  if (longest <= longest_side) return picture;
  const auto side = [&](int length) {
    return std::max(
        1, static_cast<int>(std::lround(static_cast<double>(length) * longest_side / longest)));
  };
  cv::Mat small;
  cv::resize(mat_of(picture), small, {side(picture.width), side(picture.height)}, 0, 0,
             cv::INTER_AREA);
  return picture_of(small);
}

Picture with_heat_map(const Picture& picture, const float* heat, int rows, int columns) {
  cv::Mat map, gray, shown;
  cv::resize(cv::Mat(rows, columns, CV_32F, const_cast<float*>(heat)), map,
             {picture.width, picture.height}, 0, 0, cv::INTER_LINEAR);
  map.convertTo(map, CV_8U, 255);
  cv::applyColorMap(map, map, cv::COLORMAP_VIRIDIS);
  cv::cvtColor(map, map, cv::COLOR_BGR2RGB);
  cv::cvtColor(mat_of(picture), gray, cv::COLOR_RGB2GRAY);
  cv::cvtColor(gray, gray, cv::COLOR_GRAY2RGB);
  cv::addWeighted(gray, 0.5, map, 0.5, 0, shown);
  return picture_of(shown);
}

double deviation_of(const cv::Mat& values) {
  cv::Scalar mean, deviation;
  cv::meanStdDev(values, mean, deviation);
  return deviation[0];
}

Brightness brightness(const Picture& picture) {
  Brightness found;
  cv::Mat gray, counts, laplacian;
  cv::cvtColor(mat_of(picture), gray, cv::COLOR_RGB2GRAY);
  const int channel = 0, size = 256;
  const float range[] = {0, 256};
  const float* ranges = range;
  cv::calcHist(&gray, 1, &channel, {}, counts, 1, &size, &ranges);
  std::copy(counts.begin<float>(), counts.end<float>(), found.counts.begin());
  found.deviation = deviation_of(gray);
  if (std::min(picture.height, picture.width) < 3) return found.detail = -1, found;
  cv::Laplacian(gray, laplacian, CV_16S);
  found.detail = deviation_of(laplacian(cv::Rect(1, 1, picture.width - 2, picture.height - 2)));
  return found;
}

// OpenCV's letters, which are ASCII alone, and the layout of a sheet, in pixels.
constexpr int kFont = cv::FONT_HERSHEY_SIMPLEX, kMargin = 4, kLine = 16, kLeastWidth = 160;
constexpr double kTextScale = 0.4;

// The text with a '?' for every other character, cut to this width.
std::string caption_of(const std::string& text, int width) {
  std::string line;
  for (const char c : text)
    if ((static_cast<unsigned char>(c) & 0xC0) != 0x80) line += c < ' ' || c > '~' ? '?' : c;
  while (!line.empty() && cv::getTextSize(line, kFont, kTextScale, 1, nullptr).width > width)
    line.pop_back();
  return line;
}

Picture contact_sheet(const std::vector<CaptionedPicture>& pictures, int columns) {
  std::vector<cv::Mat> shown;
  cv::Size most(kLeastWidth, 0);
  for (const CaptionedPicture& each : pictures) {
    cv::Mat& mat = shown.emplace_back(mat_of(each.picture));
    const int times = std::max(1, kLeastWidth / std::max(mat.rows, mat.cols));
    cv::resize(mat, mat, {}, times, times, cv::INTER_NEAREST);
    most = {std::max(most.width, mat.cols), std::max(most.height, mat.rows)};
  }
  columns = std::min(columns, static_cast<int>(shown.size()));
  const cv::Size cell(most.width + 2 * kMargin, most.height + 2 * kMargin + kLine);
  const int rows = (static_cast<int>(shown.size()) + columns - 1) / columns;
  const auto white = cv::Scalar::all(255), black = cv::Scalar::all(0);
  cv::Mat sheet(rows * cell.height, columns * cell.width, CV_8UC3, white);
  for (int i = 0; i < static_cast<int>(shown.size()); ++i) {
    const auto place = static_cast<std::size_t>(i);
    cv::Mat& mat = shown[place];
    const int right = (most.width - mat.cols) / 2, down = (most.height - mat.rows) / 2;
    cv::copyMakeBorder(mat, mat, kMargin + down, cell.height - kMargin - down - mat.rows,
                       kMargin + right, cell.width - kMargin - right - mat.cols,
                       cv::BORDER_CONSTANT, white);
    cv::putText(mat, caption_of(pictures[place].caption, most.width),
                {kMargin, cell.height - kMargin - kLine / 4}, kFont, kTextScale, black, 1,
                cv::LINE_AA);
    mat.copyTo(sheet({i % columns * cell.width, i / columns * cell.height, mat.cols, mat.rows}));
  }
  return picture_of(sheet);
}

std::vector<double> singular_values(std::vector<double> values, int rows, int columns) {
  const cv::SVD found(cv::Mat(rows, columns, CV_64F, values.data()), cv::SVD::NO_UV);
  return {found.w.begin<double>(), found.w.end<double>()};
}

}  // namespace
}  // namespace kiln

extern "C" const kiln::PicturesModule* kiln_pictures_module() {
  cv::setNumThreads(1);
  static constexpr kiln::PicturesModule kModule{
      kiln::kPicturesModuleVersion, kiln::shrunk,         kiln::with_heat_map, kiln::brightness,
      kiln::contact_sheet,          kiln::singular_values};
  return &kModule;
}
