# Shared by score.sh and serve.sh, which set kiln, work, images, network and size.

# $work/model: trained for the classes of $images, in one epoch on $work/few, which has a few images of each.
make_trained_model() {
  local folder
  for folder in "$images"/*/; do
    mkdir -p "$work/few/$(basename "$folder")"
    find "$folder" -type f | sort | sed -n 1,4p | xargs -rd '\n' ln -st "$work/few/$(basename "$folder")"
  done
  "$kiln" init-model "$network" --untrained-model-path "$work/untrained" >/dev/null
  "$kiln" train --untrained-model-path "$work/untrained" --train-data-path "$work/few" --valid-data-path "$work/few" \
    --trained-model-path "$work/model" --log-path "$work/logs" --image-size "$size" --epochs 1 --batch-size 4 \
    --device cpu >/dev/null
}
