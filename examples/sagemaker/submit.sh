#!/usr/bin/env bash
# Submit a job with the AWS command line, with the metrics that Kiln prints: submit.sh [job.json]
#
#   job.json        one host with GPUs; each is looked for here, then beside this script
#   cpu-hosts.json  four hosts without GPUs, each with its own shards of the training images
#   gpu-hosts.json  two hosts of eight GPUs
#
# Enter your own role, image and buckets in it. A channel `model` instead of the hyperparameter model-name trains a
# model that you already have. Several hosts (InstanceCount) need a private image with a key; docs/platforms.md says how.
# KILN: the program, or an image: KILN="docker run --rm REGISTRY/kiln:TAG" submit.sh
set -euo pipefail
job=${1:-job.json}
[ -e "$job" ] || job=$(dirname "$0")/$job
read -ra kiln <<<"${KILN:-kiln}"
metrics=$("${kiln[@]}" describe --format sagemaker-metrics)
specification=$(python3 - "$job" "$metrics" <<'PYTHON'
import json, sys
job = json.load(open(sys.argv[1]))
job["AlgorithmSpecification"]["MetricDefinitions"] = json.loads(sys.argv[2])
print(json.dumps(job))
PYTHON
)
aws sagemaker create-training-job --cli-input-json "$specification"
