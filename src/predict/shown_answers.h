// Which of a model's answers pages show with their pictures.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "data/dataset/dataset.h"
#include "data/transform/image_pipeline.h"
#include "record/label_scores.h"
#include "record/training_record.h"
#include "report/scores/score_formats.h"
#include "train/evaluation.h"

namespace kiln {

inline constexpr std::size_t kMostDrawn = 200;

// By their places in `answers`. The first 200, with pictures: wrong ones, the surest first and some
// of each of the 40 most confused pairs of classes; the right ones that the model was least sure
// of; right ones of each class. Then the surest of the other wrong ones, to be named: at most 1,000
// in all. Answers without a label (-1) count as right.
std::vector<std::size_t> answers_to_show(const std::vector<Prediction>& answers);

inline constexpr const char* kAnswersGallery = "pictures";  // the id of gallery_of()
// The gallery of these answers, for JudgedImage. `is_calibrated`: the confidences are.
PictureList gallery_of(std::vector<JudgedImage> images, bool is_calibrated);

// The gallery, still empty, of the images that are least like the training images. `separation`: of
// the model's Likeness.
inline constexpr std::size_t kLeastAlike = 24;
PictureList unlike_gallery(double separation);

// The answer that is written as `score` for an image of class `label`; -1: unknown.
Prediction prediction_of(const Score& score, std::uint32_t sample, std::int32_t label);
Prediction prediction_of(const LabelMistake& mistake, std::uint32_t sample);

// An answer for an image of `set`, which the model sees through `pixels`; its picture, if `draws`.
JudgedImage judged_image(const Dataset& set, const Prediction& answer, const TransformSpec& pixels,
                         bool draws);

}  // namespace kiln
