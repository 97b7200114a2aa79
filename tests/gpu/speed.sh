# Steps of run.sh: how fast is a training step, beside PyTorch's own, and what holds it up?
source "$here/common.sh"

if on_gpu; then
  network=resnet50 size=224 drawn=600 copies=10 epochs=3 batches="16 64 256" precisions="tf32 bf16" few=(32 2000 1)
  torch_words=(--seconds 3)
else
  network=resnet18 size=16 drawn=30 copies=2 epochs=2 batches="8" precisions="fp32" few=(16 40 1)
  torch_words=(--seconds 0.1 --warmup 1 --steps 2 --layouts nhwc nchw)  # the second for the part `networks`
fi
torch_lines=$work/torch.jsonl  # for the step `kiln`

# Writes down, every second until the step ends, how busy the GPU is.
watch_gpu() { # FILE
  if command -v nvidia-smi >/dev/null; then nvidia-smi dmon -s pucm -d 1 >"$1" 2>&1 & fi
}

tell_lines() { # FILE: of torch_steps.py
  python3 -c '
import json, sys
for row in map(json.loads, open(sys.argv[1])):
    print("RESULT", row.get("img_per_s", row.get("failure")), "img/s:", row["model"], "batch", row["batch"], row["precision"],
          row["layout"], "benchmark", row["benchmark"], round(row.get("peak_bytes", 0) / 1e9, 1), "GB")' "$1"
}

torch() {
  # shellcheck disable=SC2086
  python3 "$here/torch_steps.py" --device "$device" --models $network --size $size --batches $batches --precisions $precisions \
    "${torch_words[@]}" --benchmark on >"$torch_lines"
  cp "$torch_lines" "$logs/"
  tell_lines "$torch_lines"
  shortened "$network of ${size}x$size, batch $batches"
  the_rest_needs_gpu
  # shellcheck disable=SC2086
  python3 "$here/torch_steps.py" --models $network --size $size --batches $batches --precisions fp32 $precisions \
    "${torch_words[@]}" --benchmark off | tee "$logs/without.jsonl"
  tell_lines "$logs/without.jsonl"
}

kiln_beside_torch() {
  local data batch precision name
  data=$(images $size $drawn $copies)
  watch_gpu "$logs/dmon.txt"
  for batch in $batches; do
    for precision in $precisions; do
      name=$network-$batch-$precision
      train "$name" "$(untrained $network)" "$data" --epochs $epochs --batch-size "$batch" --cache decoded --augment none \
        --print-freq 50 --precision "$precision"
      judge "$name" tell "$logs/$name"
      [ ! -e "$torch_lines" ] ||
        judge "$name / PyTorch" beside "$torch_lines" "$logs/$name" "batch=$batch" "precision=$precision" layout=nhwc
    done
  done
  shortened "$network of ${size}x$size, batch $batches, $epochs epochs of $((drawn * copies)) images"
}

print_freq() {
  local data every
  data=$(images "${few[@]}")
  for every in $(on_gpu && echo 1 10 1000 || echo 1); do
    train "every-$every" "$(untrained resnet18)" "$data" --epochs 3 --batch-size 16 --print-freq "$every"
    judge "print-freq $every" tell "$logs/every-$every"
  done
  shortened "one frequency"
}

# How fast images are read and decoded, and whether a network waits for them.
loader() {
  local data=$bundle/photos threads
  if [ ! -d "$data" ]; then
    data=$(images $size $drawn 1)
    tell "no photographs were packed: demo data"
  fi
  for threads in $(on_gpu && echo 1 8 "$(nproc)" || echo 1); do
    tell "$threads threads: $(kiln bench loader --data "$data/train" --threads "$threads" --size $size --passes 1 |
      python3 -c 'import json, sys; found = json.load(sys.stdin); print(round(found["images_per_second"]), "img/s")')"
  done
  shortened "one thread"
  the_rest_needs_gpu
  cp -r "$data" "$work/many"
  multiply "$work/many" 30
  train photos "$(untrained resnet50)" "$work/many" --epochs 2 --batch-size 64 --augment standard --image-size 224
  judge "resnet50, augmented" tell "$logs/photos"
}

# LibTorch without its symbol tables, as the image has it.
stripped() {
  need_gpu
  need_tool strip
  local copy=$work/stripped file data
  mkdir -p "$copy/torch/lib"
  ln -s "$KILN_TORCH_ROOT/nvidia" "$copy/nvidia"
  for file in "$KILN_TORCH_ROOT"/torch/lib/*; do
    case $file in
      */libtorch_cuda.so | */libtorch_cpu.so) strip --strip-unneeded -o "$copy/torch/lib/${file##*/}" "$file" ;;
      *) ln -s "$file" "$copy/torch/lib/" ;;
    esac
  done
  data=$(images "${few[@]}")
  KILN_TORCH_ROOT=$copy train stripped "$(untrained resnet18)" "$data" --epochs 1
  train plain "$(untrained resnet18)" "$data" --epochs 1
  judge "stripped beside plain" near 0.005 "$logs/stripped" "$logs/plain"
}

# Whether a shorter number format learns as well.
accuracy() {
  local data seed precision
  data=$(images "${few[@]}")
  for precision in $(on_gpu && echo fp32 bf16 || echo fp32); do
    for seed in $(on_gpu && echo 1 2 3 || echo 1); do
      train "$precision-$seed" "$(untrained resnet18)" "$data" --epochs "$(on_gpu && echo 10 || echo 1)" --random-seed "$seed" \
        --precision "$precision" --learning-rate 0.01
      tell "$precision, seed $seed: $(grep -h 'top-1 accuracy' "$logs/$precision-$seed"/70_driver_log_0.txt | tail -1)"
    done
  done
  shortened "one epoch, one precision, one seed"
}

case $1 in kiln) kiln_beside_torch ;; *) "$@" ;; esac
