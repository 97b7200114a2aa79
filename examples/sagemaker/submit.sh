#!/usr/bin/env bash
# Start job.json with the AWS command line, with the metrics that this kiln prints: submit.sh
#
# Put your own role, image and buckets into job.json. A channel `model` in place of the hyperparameter model-name trains a
# model that you have. Several hosts (InstanceCount) need a private image with a key; README.md says how.
set -euo pipefail
cd "$(dirname "$0")"
metrics=$("${KILN:-kiln}" describe --format sagemaker-metrics)
specification=$(python3 - "$metrics" <<'PYTHON'
import json, sys
job = json.load(open("job.json"))
job["AlgorithmSpecification"]["MetricDefinitions"] = json.loads(sys.argv[1])
print(json.dumps(job))
PYTHON
)
aws sagemaker create-training-job --cli-input-json "$specification"
