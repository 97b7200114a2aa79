# Steps of run.sh: does it run, does it compute the right things, and how fast is ResNet-50?
source "$here/common.sh"

if in_full; then
  few=(32 2000 1) epochs=5 models=(resnet18 resnet50 densenet121)
  network=resnet50 side=224 drawn=600 copies=10 batch=256
else
  few=(16 40 1) epochs=1 models=(resnet18)
  network=resnet18 side=16 drawn=30 copies=2 batch=8
fi

machine() {
  local tool
  for tool in "nvidia-smi -q" "nvidia-smi -L" "nvidia-smi topo -m" nproc lscpu "free -m" "df -h" "ip -br address" "uname -a" \
    "ls -l /dev/nvidia0 /dev/nvidiactl" "ldconfig -p" "python3 --version" "ulimit -a"; do
    echo "--- $tool"
    $tool 2>&1 || true
  done
  local begin version library
  begin=$(date +%s%N)
  version=$(kiln --version)
  tell "$(nvidia-smi --query-gpu=name,driver_version,pcie.link.width.max --format=csv,noheader 2>/dev/null | head -1 || true)" \
    "$(nproc) processors; kiln --version took $((($(date +%s%N) - begin) / 1000000)) ms"
  echo "$version"
  tell "ssh: $(command -v ssh || echo none); mpirun: $(command -v mpirun)"
  for library in CUDA cuDNN NCCL; do
    grep -q "^$library " <<<"$version" || fail "kiln --version does not name $library: the GPU module was not loaded"
  done
  ! on_gpu || signal_threads
}

# Whether the driver's threads take signals that the program's own threads leave to one of them.
signal_threads() {
  python3 - <<'PYTHON'
import ctypes, pathlib, signal
code = ctypes.CDLL("libcuda.so.1").cuInit(0)
masks = [int(line.split()[1], 16) for task in pathlib.Path("/proc/self/task").iterdir()
         for line in (task / "status").read_text().splitlines() if line.startswith("SigBlk")]
taking = sum(not mask >> (signal.SIGTERM - 1) & 1 for mask in masks)
print(f"RESULT cuInit returned {code}; {len(masks)} threads, {taking} of them take SIGTERM")
PYTHON
}

unit_tests() {
  kiln_parallel_test --gtest_filter='CudaModule*' | tee "$logs/tests.txt"
  kiln_loader_device_uploader_test | tee -a "$logs/tests.txt"
  kiln_gradient_buckets_test | tee -a "$logs/tests.txt"
  kiln_fused_norm_test | tee -a "$logs/tests.txt"
  local passed skipped
  passed=$(grep -c '^\[       OK' "$logs/tests.txt")
  skipped=$(grep '^\[  SKIPPED' "$logs/tests.txt" | grep -v listed | awk '{print $4}' | sort -u | tr '\n' ' ')
  tell "$passed passed; skipped: ${skipped:-none}"
  # One test wants a machine without a GPU.
  ! on_gpu || [ "$(wc -w <<<"$skipped")" -le 1 ]
}

# A first run, and the losses of the first steps beside those of the CPU.
losses() {
  local data strange precision limit
  data=$(images "${few[@]}")
  LD_DEBUG=files LD_DEBUG_OUTPUT="$logs/ld" train first "$(untrained resnet18)" "$data" --epochs "$epochs"
  sed -n 's/.*calling init: //p' "$logs"/ld.* | sort -u >"$logs/libraries.txt"
  rm "$logs"/ld.*
  tell "$(grep -m1 'device:' "$logs/first/70_driver_log_0.txt" | sed 's/.*device: *//')"
  ! on_gpu || grep -q 'device: *NVIDIA' "$logs/first/70_driver_log_0.txt" || fail "it did not train on the GPU"
  strange=$(grep -E '/lib(torch|c10|cu(da|blas|dnn|fft|file|pti|rand|solver|sparse)|nccl|nv)' "$logs/libraries.txt" |
    grep -v -e "^$KILN_TORCH_ROOT/" -e "^$bundle/" -e 'libcuda\.so' -e libnvidia- | tr '\n' ' ' || true)
  tell "$(wc -l <"$logs/libraries.txt") libraries opened; LibTorch's or NVIDIA's from elsewhere: ${strange:-none}"
  judge last tell "$logs/first"
  shortened "${few[1]} images of ${few[0]}x${few[0]}, $epochs epoch"
  # On a CPU the steps' rate leaves out what an epoch does besides.
  ! on_gpu || ! in_full || judge rates rates 0.05 "$logs/first"
  device=cpu train cpu "$(untrained resnet18)" "$data" --epochs 1 --print-freq 1
  NVIDIA_TF32_OVERRIDE=0 train override "$(untrained resnet18)" "$data" --epochs 1 --print-freq 1
  judge "TF32 off by NVIDIA_TF32_OVERRIDE" near 0.001 "$logs/override" "$logs/cpu"
  the_rest_needs_gpu
  for precision in fp32:0.02 tf32:0.02 bf16:0.05 fp16:0.05; do
    limit=${precision#*:} precision=${precision%:*}
    train "$precision" "$(untrained resnet18)" "$data" --epochs 1 --print-freq 1 --precision "$precision"
    judge "$precision" near "$limit" "$logs/$precision" "$logs/cpu"
  done
}

# Logits in float32, and a step in float64 of two networks, beside torchvision's on the CPU.
networks() {
  python3 -c 'import safetensors' 2>/dev/null || skip "Python has no safetensors"
  NVIDIA_TF32_OVERRIDE=0 python3 "$here/../parity/model_parity.py" --tool "$bundle/kiln_model_tool" --device "$device" \
    --models "${models[@]}" | tee "$logs/parity.txt"
  tell "$(sort -t' ' -k1,1 "$logs/parity.txt" | awk '/largest difference/ {
      for (i = 1; i < NF; i++) if ($i == "difference" && $(i + 1) + 0 > worst[$1] + 0) worst[$1] = $(i + 1); number[$1]++ }
    END { for (kind in worst) printf "%d x %s: at most %s; ", number[kind], kind, worst[kind] }')"
  shortened "${models[*]} alone"
}

# The answers of the first run's model on the GPU, beside the CPU's: the same labels, and probabilities as close as TF32 allows.
predict() {
  local data where
  data=$(images "${few[@]}")
  [ -d "$work/models/first" ] || train first "$(untrained resnet18)" "$data" --epochs 1  # without the step losses
  for where in "$device" cpu; do
    kiln score --trained-model-path "$work/models/first" --data-path "$data/val" --output-path "$logs/$where.csv" \
      --all-classes --device "$where"
    kiln evaluate --trained-model-path "$work/models/first" --data-path "$data/val" --output-path "$logs/evaluate-$where" \
      --device "$where"
  done
  judge "scores" scores 0.01 "$logs/$device.csv" "$logs/cpu.csv"
}

# With --deterministic a run gives the same numbers twice, and after it was stopped and continued; without it, that is told.
repeated() {
  local data model name
  data=$(images "${few[@]}")
  model=$(untrained resnet18)
  for name in fixed again; do
    train $name "$model" "$data" --epochs 8 --deterministic
  done
  judge "--deterministic twice" same "$logs/fixed" "$logs/again"
  train_words continued "$model" "$data"
  words+=(--device "$device" --epochs 8 --deterministic --checkpoint-path "$work/checkpoints")
  kiln "${words[@]}" >"$logs/stopped.txt" 2>&1 &
  wait_for '^Epoch 1,' "$logs/stopped.txt"
  kill -TERM $!
  expect_exit 143 "SIGTERM" wait $!
  kiln "${words[@]}"
  judge "continued" same "$logs/fixed" "$logs/continued"
  for name in free once-more; do
    train $name "$model" "$data" --epochs 3
  done
  judge "without it" same "$logs/free" "$logs/once-more" || true
}

# The headline: images per second beside PyTorch's, each with its own best format.
speed() {
  local data precision precisions rate_epochs=3
  precisions=$(in_full && echo bf16 fp16 tf32 || echo fp32)
  if in_full; then
    nvidia-smi dmon -s pucm -d 1 >"$logs/dmon.txt" 2>&1 &
    torch_steps "$logs/torch.jsonl" --models $network --size $side --batches $batch --precisions bf16 --seconds 2 --compile
    torch_steps "$logs/torch.jsonl" --models $network --size $side --batches $batch --precisions $precisions --seconds 2
  else
    device=cpu torch_steps "$logs/torch.jsonl" --models $network --size $side --batches $batch --precisions fp32 --seconds 0.1 \
      --warmup 1 --steps 2
  fi
  tell_lines "$logs/torch.jsonl"
  data=$(images $side $drawn $copies)
  for precision in $precisions; do
    rates "$precision" $network "$data" --batch-size $batch --precision "$precision"
    ! in_full || beside "$precision" "$logs/torch.jsonl" "precision=$precision" compiled=False
  done
  ! in_full || KILN_FUSED_NORM=1 rates own_norms $network "$data" --batch-size $batch --precision bf16
  shortened "$network of ${side}x$side, batch $batch, $((drawn * copies)) images"
}

"$@"
