# Steps of run.sh: every network, beside torchvision's in both memory layouts.
source "$here/common.sh"

if on_gpu; then
  size=224 drawn=500 copies=4 batch=64 seconds=2 precision=tf32
  networks="resnet18 resnet34 resnet50 resnet101 resnet152 resnext50_32x4d resnext101_32x8d wide_resnet50_2 wide_resnet101_2
    densenet121 densenet161 densenet169 densenet201"
else
  size=16 drawn=30 copies=1 batch=8 seconds=0.1 precision=fp32 networks="resnet18"
fi
torch_lines=$work/torch-networks.jsonl  # for the step `kiln`

torch() {
  if ! on_gpu && [ -e "$work/torch.jsonl" ]; then
    cp "$work/torch.jsonl" "$torch_lines"
    shortened "what speed.torch measured"
  else
    # shellcheck disable=SC2086
    python3 "$here/torch_steps.py" --device "$device" --models $networks --size $size --batches $batch \
      --precisions $precision --layouts nhwc nchw --seconds $seconds >"$torch_lines"
  fi
  cp "$torch_lines" "$logs/"
  python3 - "$torch_lines" <<'PYTHON'
import collections, json, sys
rates = collections.defaultdict(dict)
for row in map(json.loads, open(sys.argv[1])):
    rates[row["model"]][row["layout"]] = row.get("img_per_s", 0)
for name, of in rates.items():
    print(f"RESULT {name}: NHWC {of['nhwc']}, NCHW {of['nchw']} img/s")
PYTHON
}

kiln_beside_torch() {
  local data name
  data=$(images $size $drawn $copies)
  for name in $networks; do
    train "$name" "$(untrained "$name")" "$data" --epochs 2 --batch-size $batch --cache decoded --augment none --print-freq 50 \
      --precision "$precision"
    judge "$name" tell "$logs/$name"
    [ ! -e "$torch_lines" ] || judge "$name / PyTorch" beside "$torch_lines" "$logs/$name" "model=$name" layout=nhwc
    rm -r "$work/models/$name"
  done
  shortened "$networks of ${size}x$size"
}

# DenseNet with and without recomputation in backward: memory against time.
recomputed() {
  need_gpu
  local data
  data=$(images $size $drawn $copies)
  train kept "$(untrained densenet121)" "$data" --epochs 2 --batch-size $batch --cache decoded
  train recomputed "$(untrained densenet121 --memory-efficient)" "$data" --epochs 2 --batch-size $batch --cache decoded
  judge "kept" tell "$logs/kept"
  judge "recomputed" tell "$logs/recomputed"
  judge "losses" near 0.02 "$logs/recomputed" "$logs/kept"
}

case $1 in kiln) kiln_beside_torch ;; *) "$@" ;; esac
