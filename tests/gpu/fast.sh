# Steps of run.sh: where the time of a step goes, and how fast all else is.
source "$here/common.sh"

if in_full; then
  network=resnet50 side=224 drawn=500 copies=4 batches="16 64 256" precision=bf16 few=(224 300 1) many=64
  torch_words=(--seconds 1.5)
  networks="resnet18 resnet34 resnet50 resnet101 resnet152 resnext50_32x4d resnext101_32x8d wide_resnet50_2 wide_resnet101_2
    densenet121 densenet161 densenet169 densenet201"
else
  network=resnet18 side=16 drawn=30 copies=1 batches=8 precision=fp32 few=(16 40 1) many=8 networks=resnet18
  torch_words=(--seconds 0.1 --warmup 1 --steps 2)
fi
torch_device=$(in_full && echo cuda || echo cpu)

# Every kernel of one step, with its time.
kernels() {
  need_real_gpu
  need_tool ncu
  local data
  data=$(images $side $drawn $copies)
  train_words kernels "$(untrained $network)" "$data"
  ncu --target-processes all --clock-control none --metrics gpu__time_duration.sum --csv --launch-skip 8000 --launch-count 800 \
    kiln "${words[@]}" --device cuda --epochs 2 --batch-size 256 --precision bf16 --cache decoded --augment none >"$logs/kernels.csv"
  python3 - "$logs/kernels.csv" <<'PYTHON'
import collections, csv, sys
lines = [line for line in open(sys.argv[1]) if line.startswith('"')]
times = collections.Counter()
for row in csv.DictReader(lines):
    unit = {"nsecond": 1e-6, "usecond": 1e-3, "msecond": 1, "ns": 1e-6, "us": 1e-3, "ms": 1}[row["Metric Unit"]]
    times[row["Kernel Name"].split("<")[0].split("(")[0]] += unit * float(row["Metric Value"].replace(",", ""))
print(f"RESULT {sum(times.values()):.1f} ms in {len(lines) - 1} kernels")
for name, spent in times.most_common(12):
    print(f"RESULT {spent:7.2f} ms {name[:90]}")
PYTHON
}

# LibTorch runs BatchNorm in bf16 with its own kernels, though cuDNN may take it.
norms() {
  need_real_gpu
  python3 - <<'PYTHON'
import time
import torch

def microseconds(work):
    for _ in range(5):
        work()
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(50):
        work()
    torch.cuda.synchronize()
    return 20000 * (time.perf_counter() - begin)

for dtype in (torch.bfloat16, torch.float16):
    images = torch.randn(256, 256, 56, 56, device="cuda", dtype=dtype).contiguous(memory_format=torch.channels_last)
    weight, bias, mean, variance = (torch.ones(256, device="cuda") for _ in range(4))
    results = []
    for name in ("native_batch_norm", "cudnn_batch_norm"):
        norm = getattr(torch.ops.aten, name)
        try:
            results.append(norm(images, weight, bias, mean, variance, True, 0.1, 1e-5)[0].float())
            spent = microseconds(lambda: norm(images, weight, bias, mean, variance, True, 0.1, 1e-5))
            print(f"RESULT {dtype} {name}: {spent:.0f} us, {(results[-1] - results[0]).abs().max():.1e} from the first")
        except RuntimeError as fault:
            print(f"RESULT {dtype} {name}: {str(fault).splitlines()[0]}")
PYTHON
}

# Small batches show what the host costs; mixed images what mixing does. The next program, if packed, beside it.
batches() {
  local data batch name rate_epochs=2
  data=$(images $side $drawn $copies)
  # shellcheck disable=SC2086
  device=$torch_device torch_steps "$logs/torch.jsonl" --models $network --size $side --batches $batches --precisions $precision \
    "${torch_words[@]}"
  for batch in $batches; do
    [ "$batch" -lt 256 ] || rate_epochs=8
    rates "$batch" $network "$data" --batch-size "$batch" --precision $precision
    ! in_full || beside "$batch" "$logs/torch.jsonl" "batch=$batch"
    rates "$batch-mixed" $network "$data" --batch-size "$batch" --precision $precision --mixup 0.2 --cutmix 1
    ! has_next || as_next rates "$batch-next" $network "$data" --batch-size "$batch" --precision $precision
  done
  shortened "$network of ${side}x$side, batch $batches"
}

networks() {
  local data name rate_epochs
  rate_epochs=$(in_full && echo 14 || echo 2)
  data=$(images "${few[@]}")
  # shellcheck disable=SC2086
  device=$torch_device torch_steps "$logs/torch.jsonl" --models $networks --size "${few[0]}" --batches $many --precisions $precision \
    "${torch_words[@]}"
  for name in $networks; do
    rates "$name" "$name" "$data" --batch-size $many --precision $precision
    ! in_full || beside "$name" "$logs/torch.jsonl" "model=$name"
  done
  shortened "$networks"
}

memcheck() {
  need_real_gpu
  need_tool compute-sanitizer
  compute-sanitizer --target-processes all --tool memcheck --error-exitcode 9 "$bundle/kiln_loader_device_uploader_test"
  tell "$(grep 'ERROR SUMMARY' "$logs/step.log" | tail -1)"
}

# How fast images are read and decoded.
loader() {
  local data=$bundle/photos threads
  if [ ! -d "$data" ]; then
    data=$(images $side $drawn 1)
    tell "no photographs were packed: demo data"
  fi
  for threads in $(in_full && echo 1 8 "$(nproc)" || echo 1); do
    tell "$threads threads: $(kiln_bench loader --data "$data/train" --threads "$threads" --size $side --passes 1 |
      python3 -c 'import json, sys; found = json.load(sys.stdin); print(round(found["images_per_second"]), "img/s")')"
  done
  shortened "one thread"
}

"$@"
