# Steps of run.sh: does it run, and does it compute the right things?
source "$here/common.sh"

if on_gpu; then
  few=(32 2000 1) epochs=5 networks=()
else
  few=(16 40 1) epochs=1 networks=(--models resnet18)
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
  for library in CUDA cuDNN NCCL; do
    grep -q "^$library " <<<"$version" || fail "kiln --version does not name $library: the GPU module was not loaded"
  done
}

# Whether the driver's threads take signals that the program's own threads leave to one of them.
driver_threads() {
  need_gpu
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
  kiln_device_uploader_test | tee -a "$logs/tests.txt"
  kiln_gradient_buckets_test | tee -a "$logs/tests.txt"
  local passed skipped
  passed=$(grep -c '^\[       OK' "$logs/tests.txt")
  skipped=$(grep '^\[  SKIPPED' "$logs/tests.txt" | grep -v listed | awk '{print $4}' | sort -u | tr '\n' ' ')
  tell "$passed passed; skipped: ${skipped:-none}"
  # One test wants a machine without a GPU.
  ! on_gpu || [ "$(wc -w <<<"$skipped")" -le 1 ]
}

memcheck() {
  need_gpu
  need_tool compute-sanitizer
  compute-sanitizer --tool memcheck --error-exitcode 9 "$bundle/kiln_device_uploader_test"
  tell "$(grep 'ERROR SUMMARY' "$logs/step.log" | tail -1)"
}

first_run() {
  local data strange
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
  shortened "${few[1]} images of ${few[0]}x${few[0]} here and below, $epochs epoch"
  # On a CPU the steps' rate leaves out what an epoch does besides.
  ! on_gpu || judge rates rates 0.05 "$logs/first"
}

# The losses of the first epoch on the GPU beside those of the CPU.
precisions() {
  local data precision limit
  data=$(images "${few[@]}")
  device=cpu train cpu "$(untrained resnet18)" "$data" --epochs 1
  NVIDIA_TF32_OVERRIDE=0 train override "$(untrained resnet18)" "$data" --epochs 1
  judge "TF32 off by NVIDIA_TF32_OVERRIDE" near 0.005 "$logs/override" "$logs/cpu"
  the_rest_needs_gpu
  for precision in fp32:0.02 tf32:0.02 bf16:0.05 fp16:0.05; do
    limit=${precision#*:} precision=${precision%:*}
    train "$precision" "$(untrained resnet18)" "$data" --epochs 1 --precision "$precision"
    judge "$precision" near "$limit" "$logs/$precision" "$logs/cpu"
  done
}

# Logits in float32 and steps in float64 on the GPU, beside torchvision's on the CPU.
model_parity() {
  python3 -c 'import safetensors' 2>/dev/null || skip "Python has no safetensors"
  KILN_NIGHTLY=1 python3 "$here/../parity/model_parity.py" --tool "$bundle/kiln_model_tool" \
    --device "$device" "$@" | tee "$logs/parity.txt"
  tell "$(sort -t' ' -k1,1 "$logs/parity.txt" | awk '/largest difference/ {
      for (i = 1; i < NF; i++) if ($i == "difference" && $(i + 1) + 0 > worst[$1] + 0) worst[$1] = $(i + 1); number[$1]++ }
    END { for (kind in worst) printf "%d x %s: at most %s; ", number[kind], kind, worst[kind] }')"
}
networks_fp32() {
  NVIDIA_TF32_OVERRIDE=0 model_parity "${networks[@]}"
  shortened "logits of ${networks[*]:1} alone"
}
networks_tf32() {
  need_gpu
  model_parity --logits-limit 3e-3 --models resnet18 resnext50_32x4d wide_resnet50_2 densenet161
}

repeats() {
  local data
  data=$(images "${few[@]}")
  local run
  for run in 1 2; do train "repeat-$run" "$(untrained resnet18)" "$data" --epochs 2 --deterministic; done
  judge "with --deterministic" same "$logs/repeat-1" "$logs/repeat-2"
  the_rest_needs_gpu
  for run in 1 2; do train "plain-$run" "$(untrained resnet18)" "$data" --epochs 2; done
  judge "without" same "$logs/plain-1" "$logs/plain-2" || true  # nothing is promised
}

faults() {
  local data words pid begin code=0
  data=$(images "${few[@]}")
  train_words hidden "$(untrained resnet18)" "$data"
  CUDA_VISIBLE_DEVICES='' expect_exit 3 "--device cuda without a visible GPU" kiln "${words[@]}" --device cuda
  CUDA_VISIBLE_DEVICES=77 expect_exit 3 "--device cuda with CUDA_VISIBLE_DEVICES=77" kiln "${words[@]}" --device cuda
  train_words stopped "$(untrained resnet18)" "$data"
  kiln "${words[@]}" --device "$device" --epochs 1000 --save last >"$logs/stopped.txt" 2>&1 &
  pid=$!
  wait_for '^Epoch 1,' "$logs/stopped.txt"
  begin=$SECONDS
  kill -TERM $pid
  wait $pid || code=$?
  [ $code = 143 ] || fail "SIGTERM: exit code $code instead of 143"
  kiln inspect "$work/models/stopped" >/dev/null || fail "SIGTERM: no model was saved"
  tell "SIGTERM: saved and ended within $((SECONDS - begin + 1)) s"
  the_rest_needs_gpu
  train_words hidden "$(untrained resnet18)" "$data"
  CUDA_VISIBLE_DEVICES='' expect_exit 0 "--device auto without a visible GPU" kiln "${words[@]}" --device auto --epochs 1
  PYTORCH_CUDA_ALLOC_CONF=per_process_memory_fraction:0.01 expect_exit 3 "too little GPU memory" \
    train memory "$(untrained resnet50)" "$data" --epochs 1 --batch-size 256 --image-size 224
  tell "memory: $(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["Exception"]["Message"])' \
    "$logs/memory/module_statistics/error_info.json")"
  train_words killed "$(untrained resnet18)" "$data"
  kiln "${words[@]}" --device cuda --epochs 1000 >"$logs/killed.txt" 2>&1 &
  pid=$!
  wait_for '^Epoch 1,' "$logs/killed.txt"
  kill -KILL $pid
  wait $pid || true
  sleep 2
  tell "SIGKILL: $(nvidia-smi --query-compute-apps=pid --format=csv,noheader | wc -l) processes are left on the GPU"
}

"$@"
