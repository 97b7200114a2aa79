"""init-model -> convert -> train on two nodes with two processes each -> score, evaluate, by Azure ML's SDK: python pipeline.py

Submits to the workspace in config.json. Enter your own compute target (gpu-cluster here) and data assets (train-photos,
valid-photos, and test-photos, which training does not see) here, and your registry's image in the component files;
docs/platforms.md says how. train writes its checkpoints to a fixed path, from which the next job of this file resumes if
one is stopped: use another path for every training.
"""
import pathlib

from azure.ai.ml import Input, MLClient, MpiDistribution, Output, dsl, load_component

CHECKPOINTS = "azureml://datastores/workspaceblobstore/paths/kiln/checkpoints/photos-resnet50"
ROOT = pathlib.Path(__file__).resolve().parents[2]
init_model = load_component(source=ROOT / "components/init-model.yaml")
convert = load_component(source=ROOT / "components/convert.yaml")
train_model = load_component(source=ROOT / "component.yaml")
score_images = load_component(source=ROOT / "components/score.yaml")
evaluate_model = load_component(source=ROOT / "components/evaluate.yaml")


@dsl.pipeline(display_name="Train with Kiln", default_compute="gpu-cluster")
def train_with_kiln(train_photos, valid_photos, test_photos):
    network = init_model(model_name="resnet50")
    train_images = convert(input_path=train_photos)
    valid_images = convert(input_path=valid_photos)
    train = train_model(untrained_model_path=network.outputs.untrained_model_path,
                        train_data_path=train_images.outputs.output_path,
                        valid_data_path=valid_images.outputs.output_path,
                        epochs=90, batch_size=64, num_warmup_steps=5, learning_rate=0.025, patience=90,
                        augment="standard")
    train.distribution = MpiDistribution(process_count_per_instance=2)
    train.resources = {"instance_count": 2, "shm_size": "8g"}
    train.outputs.checkpoint_path = Output(type="uri_folder", mode="rw_mount", path=CHECKPOINTS)
    score = score_images(trained_model_path=train.outputs.trained_model_path, data_path=test_photos)
    evaluate = evaluate_model(trained_model_path=train.outputs.trained_model_path, data_path=test_photos)
    return {"model": train.outputs.trained_model_path, "scores": score.outputs.scored_dataset,
            "evaluation": evaluate.outputs.output_path}


def build_pipeline():
    return train_with_kiln(*(Input(type="uri_folder", path=f"azureml:{name}-photos@latest") for name in ("train", "valid", "test")))


if __name__ == "__main__":
    from azure.identity import DefaultAzureCredential

    client = MLClient.from_config(DefaultAzureCredential())
    print(client.jobs.create_or_update(build_pipeline(), experiment_name="kiln").studio_url)
