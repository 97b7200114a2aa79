# Steps of run.sh: two ranks, which share the GPU, and what goes wrong. Nothing here says how fast several GPUs are.
source "$here/common.sh"

# In the program: lets two ranks use one GPU, and has NCCL take each for a host of its own.
export KILN_SHARE_GPU=1 NCCL_NET=Socket NCCL_SOCKET_IFNAME=lo NCCL_NVLS_ENABLE=0 NCCL_MAX_CTAS=2

if in_full; then
  few=(32 600 1) batch=32
else
  few=(16 40 1) batch=8
fi

pair() {
  kiln_nccl_pair_test --gtest_filter="$(in_full && echo -NcclPair.ManySmallSums* || echo NcclPairWork*:NcclPair.TwoRanks*)" |
    tee "$logs/tests.txt"
  tell "$(grep -c '^\[       OK' "$logs/tests.txt") passed, $(grep -c '^\[  SKIPPED.*ms)' "$logs/tests.txt" || true) skipped"
  shortened "gpu.units has the other tests"
  ! on_gpu || ! grep -q SKIPPED "$logs/tests.txt"
}

soak() {
  need_gpu
  KILN_SOAK_SECONDS=$(in_full && echo 45 || echo 2) kiln_nccl_pair_test --gtest_filter=NcclPair.ManySmallSums* | tee "$logs/tests.txt"
  grep -q '^soak:' "$logs/tests.txt" || fail "no sums were counted"
  tell "$(grep '^soak:' "$logs/tests.txt")"
}

# The same images in the same order by one rank and by two.
two_ranks() {
  local data model options=(--epochs 2 --lr-scaling none --print-freq 1)
  data=$(images "${few[@]}")
  model=$(untrained resnet18)
  export NVIDIA_TF32_OVERRIDE=0
  timed "one rank" train one "$model" "$data" "${options[@]}" --batch-size $batch
  two() { # NAME OPTIONS...
    train "$1" "$model" "$data" "${options[@]}" --batch-size $((batch / 2)) --ranks 2 --sync-batch-norm "${@:2}"
  }
  timed "two ranks" two two
  judge "two ranks beside one" near 0.001 "$logs/two" "$logs/one"
  judge "two ranks" tell "$logs/two"
  shortened "${few[1]} images of ${few[0]}x${few[0]} here and below"
  the_rest_needs_gpu
  if has_next; then
    as_next two next
    judge "the next program" near 0.001 "$logs/next" "$logs/one"
    judge "the next program" tell "$logs/next"
  fi
}

# Starts two ranks that train until they are stopped, as process $job, and waits for their first epoch.
start_two() { # NAME OPTIONS...
  local words data
  data=$(images "${few[@]}")
  train_words "$1" "$(untrained resnet18)" "$data"
  trap 'kill -KILL $(processes_of_job) 2>/dev/null || true' EXIT  # a stopped rank outlives the launcher
  KILN_STEP=$$ kiln "${words[@]}" --device "$device" --epochs 100000 --batch-size 8 --ranks 2 --save last \
    --collective-timeout 6 "${@:2}" >"$logs/$1.txt" 2>&1 &
  job=$!
  wait_for '^Epoch 1,' "$logs/$1.txt"
}
# The processes of the job, or the one that is this rank.
processes_of_job() { grep -lsz "^KILN_STEP=$$\$" /proc/[0-9]*/environ | cut -d/ -f3; }
process_of_rank() { # RANK
  local process
  for process in $(processes_of_job); do
    ! grep -qsz "^OMPI_COMM_WORLD_RANK=$1\$" "/proc/$process/environ" || echo "$process"
  done
}
# The job ends with this code, in time, and leaves no process.
expect_end() { # NAME CODE SECONDS
  local begin=$SECONDS code=0
  wait "$job" || code=$?
  tell "$1: exit code $code within $((SECONDS - begin + 1)) s: $(grep -h -m1 '^error' "$logs/$1.txt" || true)"
  [ $code = "$2" ] || fail "$1: exit code $code instead of $2"
  [ $((SECONDS - begin)) -le "$3" ] || fail "$1: that took longer than $3 s"

  for _ in $(seq 50); do
    [ -n "$(processes_of_job)" ] || return 0
    sleep 0.1
  done
  fail "$1: processes $(processes_of_job | tr '\n' ' ')are left"
}

killed() {
  start_two killed
  kill -KILL "$(process_of_rank 1)"
  expect_end killed 137 20
}

stopped() {
  start_two stopped
  kill -STOP "$(process_of_rank 1)"
  expect_end stopped 3 30
}

terminated() {
  start_two terminated
  kill -TERM "$job"
  expect_end terminated 143 20
  kiln inspect "$work/models/terminated" >/dev/null || fail "no model was saved"
}

error_message() { # NAME
  python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["Exception"]["Message"])' \
    "$logs/$1/module_statistics/error_info.json"
}

# One rank alone runs out of the GPU's memory: both must name it.
memory() {
  need_gpu
  local words data
  data=$(images "${few[@]}")
  train_words memory "$(untrained resnet50)" "$data"
  mpirun -np 2 --oversubscribe --bind-to none bash -c '
    [ "$OMPI_COMM_WORLD_RANK" = 0 ] || export PYTORCH_CUDA_ALLOC_CONF=per_process_memory_fraction:0.01
    exec kiln "$@"' rank "${words[@]}" --device cuda --epochs 2 \
    $(in_full && echo --batch-size 64 --image-size 224 || echo --batch-size 8) >"$logs/memory.txt" 2>&1 &
  job=$!
  expect_end memory 3 35
  grep -q 'rank 1' "$logs/memory.txt" || fail "nobody named rank 1"
  tell "error_info.json: $(error_message memory)"
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
    train alone "$(untrained resnet50)" "$data" --epochs 1 $(in_full && echo --batch-size 256 --image-size 224)
  tell "memory: $(error_message alone)"
  in_full || { tell "the rest needs a real GPU"; exit 0; }
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
