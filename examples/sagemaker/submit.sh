#!/usr/bin/env bash
# Start job.json with the AWS command line, with the metrics that kiln prints: submit.sh
#
# Put your own role, image and buckets into job.json. A channel `model` in place of the hyperparameter model-name trains a
# model that you have. Several hosts (InstanceCount) need a private image with a key; docs/platforms.md says how.
# KILN: the program, or an image: KILN="docker run --rm REGISTRY/kiln:TAG" submit.sh
set -euo pipefail
cd "$(dirname "$0")"
read -ra kiln <<<"${KILN:-kiln}"
metrics=$("${kiln[@]}" describe --format sagemaker-metrics)
specification=$(python3 - "$metrics" <<'PYTHON'
import json, sys
job = json.load(open("job.json"))
job["AlgorithmSpecification"]["MetricDefinitions"] = json.loads(sys.argv[1])
print(json.dumps(job))
PYTHON
)
aws sagemaker create-training-job --cli-input-json "$specification"
