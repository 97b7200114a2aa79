// Tells the MLflow server of the only argument a run that no data set gives: numbers that are not
// finite, and labels that are no names.
#include <cmath>
#include <cstdio>

#include "report/mlflow/mlflow_sink.h"

int main(int, char** argv) {
  kiln::Log log;
  kiln::RunRecord run;
  run.start.options = {
      {"train-data-path", "/data/\"<script>\"\n\xE2\x80\xAE\xFF" + std::string(7000, 'x')}};
  run.start.data.classes = {"<script>alert(1)</script>",    "say \"no\"\nor\tyes", "..",
                            "\xD7\xA9\xD7\x9C\xE2\x80\xAE", std::string(300, 'w'), "a/../b"};
  run.details.epoch = 1;
  run.details.confusion.num_classes = 6;
  run.details.confusion.counts.assign(36, 1);
  run.epochs.resize(2);
  run.epochs[0].epoch = 1;
  run.epochs[0].train = {NAN, 0, 0, 1};
  run.epochs[0].valid = {-INFINITY, 0, 0, 1};
  run.epochs[1].epoch = 2;
  run.epochs[1].train = {INFINITY, 0, 0, 1};
  run.end.status = kiln::RunStatus::kFinished;
  kiln::MlflowSettings settings;
  settings.tracking_uri = argv[1];
  settings.experiment_name = "odd";
  kiln::MlflowSink sink(settings, {}, true, log);
  sink.start(run.start);
  for (const kiln::EpochRecord& epoch : run.epochs) sink.epoch(epoch, nullptr);
  sink.end(run);
  std::puts(sink.lost().c_str());
  return 0;
}
