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
std::vector<ExplainedAnswer> answers_of(const Run& run, const std::vector<JudgedImage>& wrong) {
  const SampleTable& samples = run.sources.valid.samples;
  const auto num_classes = static_cast<int>(run.sources.train.classes.size());
  std::vector<ExplainedAnswer> answers;
  for (const JudgedImage& image : wrong) {
    std::size_t i = 0;
    while (i < samples.size() && samples.file_name(i) != image.file) ++i;
    if (i < samples.size() && image.guess >= 0 && image.guess < num_classes)
      answers.push_back({i, image.guess, static_cast<float>(image.confidence)});
    else
      run.console.warning("No heat map for '" + printable(image.file) +
                          "': rank 0 does not have the image.");
  }
  return answers;
}

}  // namespace

void explain_mistakes(Run& run, const std::vector<JudgedImage>& wrong) {
  const OutputConfig& output = run.plan.output;
  try {
    const at::Device device = torch_device(run.machine.device);
    Predictor predictor(output.trained_model_path, device, run.machine.precision.precision);
    const std::vector<ExplainedAnswer> answers = answers_of(run, wrong);
    const Explained explained = run.outputs.explanations->add(
        predictor, device, run.plan.pixels.valid, run.sources.valid, answers);
    for (const std::string& note : explained.notes) run.console.warning(note);
    run.outputs.explanations->commit();
    run.console.info(formatted("heat maps of %zu mistakes: ", answers.size()) + "'" +
                     output.explain + "'");
  } catch (const std::exception& failure) {
    run.console.warning(
        std::string("The model is saved, but the heat maps of its mistakes failed: ") +
        failure.what());
  }
}

}  // namespace kiln
