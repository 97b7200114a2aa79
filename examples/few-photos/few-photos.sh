#!/usr/bin/env bash
# From one folder of photos to a model and its pages: few-photos.sh NETWORK WEIGHTS PHOTOS OUT [more options of kiln train]
#
# NETWORK: such as resnet50. WEIGHTS: pretrained weights for it, a file (.pth, .safetensors) or an https:// URL.
# PHOTOS: one folder per class, split into training and validation images. Nothing is written to it.
# Environment: LIMIT, the time to train (10min), and NEW, a folder of photos to classify (PHOTOS).
set -euo pipefail
[ $# -ge 4 ] || { sed -n '2,6s/^# \{0,1\}//p' "$0" >&2; exit 2; }
network=$1 weights=$2 photos=$3 out=$4
shift 4
built=$(cd "$(dirname "$0")/../.." && pwd)/build/release/kiln
kiln=${KILN:-$(command -v kiln || echo "$built")}

mkdir -p "$out"
"$kiln" train --data-path "$photos" --model-name "$network" --weights "$weights" --time-limit "${LIMIT:-10min}" \
  --ranks auto --trained-model-path "$out/model" --log-path "$out/logs" "$@"
"$kiln" audit --data-path "$photos" --model-name "$network" --weights "$weights" --output-path "$out/audit"
"$kiln" score --trained-model-path "$out/model" --data-path "${NEW:-$photos}" --output-path "$out/scores.csv"

cat <<END

What to look at, in this order:
  $out/logs/report.html      how good the model is, how certain that is, and which mistakes it makes
  $out/audit/audit.html      photos to review: doubtful labels, copies, dark and blurred ones. Enter the right labels in
                             $out/audit/doubtful.csv, delete the other rows, and start over with
                             --labels $out/audit/doubtful.csv at the end of the command line and another OUT
  $out/scores.csv            a prediction for each photo, with the model's confidence
  $out/logs/repeat.yaml      what was chosen; this repeats it: $kiln train --config $out/logs/repeat.yaml
                             --trained-model-path $out/again --log-path $out/again-logs
END
