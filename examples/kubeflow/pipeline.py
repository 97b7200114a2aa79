"""init-model -> convert -> train -> score, evaluate in Kubeflow Pipelines: python pipeline.py OUT.yaml, then upload that file.

Enter your own storage here, and your registry's image in the component files; docs/platforms.md says how. train starts a process
for each GPU of its pod; for several pods see mpijob.yaml and trainjob.yaml.
Pods run as the image's default user, root: a pipeline cannot set another user, only the cluster's policies can.
"""
import pathlib
import sys

from kfp import compiler, components, dsl

COMPONENTS = pathlib.Path(__file__).resolve().parents[2] / "components/kubeflow"
init_model = components.load_component_from_file(str(COMPONENTS / "init-model.yaml"))
convert = components.load_component_from_file(str(COMPONENTS / "convert.yaml"))
train = components.load_component_from_file(str(COMPONENTS / "train.yaml"))
score = components.load_component_from_file(str(COMPONENTS / "score.yaml"))
evaluate = components.load_component_from_file(str(COMPONENTS / "evaluate.yaml"))


@dsl.pipeline(name="train-with-kiln")
def train_with_kiln(train_photos: str = "s3://bucket/photos/train", valid_photos: str = "s3://bucket/photos/valid",
                    test_photos: str = "s3://bucket/photos/test", epochs: int = 90):
    network = init_model(model_name="resnet50")
    photos = [dsl.importer(artifact_uri=uri, artifact_class=dsl.Dataset).output
              for uri in (train_photos, valid_photos, test_photos)]
    sets = [convert(input_path=photos[0]), convert(input_path=photos[1])]
    training = train(untrained_model_path=network.outputs["untrained_model_path"],
                     train_data_path=sets[0].outputs["output_path"], valid_data_path=sets[1].outputs["output_path"],
                     epochs=epochs, patience=epochs, batch_size=64, num_warmup_steps=5.0,
                     learning_rate=0.025, augment="standard")
    training.set_accelerator_type("nvidia.com/gpu").set_accelerator_limit(4).set_memory_limit("64G")
    for step in (score, evaluate):
        step(trained_model_path=training.outputs["trained_model_path"], data_path=photos[2])


if __name__ == "__main__":
    compiler.Compiler().compile(train_with_kiln, sys.argv[1])
