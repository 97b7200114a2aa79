#include "run/explained_mistakes.h"

#include <cstddef>
#include <exception>
#include <string>

#include "base/text.h"
#include "predict/explanations.h"
#include "predict/predictor.h"

namespace kiln {
namespace {

// Looks images up by file name: in a resumed run, the record is all that is left of the mistakes,
// and it has only names.
std::vector<Prediction> answers_of(const TrainingJob& job, const std::vector<JudgedImage>& wrong) {
  const SampleTable& samples = job.inputs.valid.samples;
  const auto num_classes = static_cast<int>(job.inputs.train.classes.size());
  std::vector<Prediction> answers;
  for (const JudgedImage& image : wrong) {
    std::size_t i = 0;
    while (i < samples.size() && samples.file_name(i) != image.file) ++i;
    if (i < samples.size() && image.guess >= 0 && image.guess < num_classes)
      answers.push_back({.sample = static_cast<std::uint32_t>(i),
                         .predicted = image.guess,
                         .confidence = static_cast<float>(image.confidence)});
    else
      job.log.warning("No heat map for '" + printable(image.file) +
                      "': rank 0 does not have the image.");
  }
  return answers;
}

}  // namespace

void explain_mistakes(TrainingJob& job, const std::vector<JudgedImage>& wrong) {
  const OutputConfig& output = job.config.output;
  try {
    const at::Device device = torch_device(job.device);
    Predictor predictor(output.trained_model_path, device, job.precision.precision);
    const std::vector<Prediction> answers = answers_of(job, wrong);
    const Explained explained = job.explanations->add(predictor, device, job.inputs.valid_pixels,
                                                      job.inputs.valid, answers);
    for (const std::string& note : explained.notes) job.log.warning(note);
    job.explanations->commit();
    job.log.info(formatted("heat maps of %zu mistakes: ", answers.size()) + "'" + output.explain +
                 "'");
  } catch (const std::exception& failure) {
    job.log.warning(std::string("The model is saved, but the heat maps of its mistakes failed: ") +
                    failure.what());
  }
}

}  // namespace kiln
