"""MPIJob and TrainJob: pods checked by Kubernetes' schema, the rest by Trainer's types and our own rules."""
import copy
import pathlib
import subprocess
import tempfile
import unittest

from platforms import KILN, ROOT, assert_resumed, main, start_until, use_clients

use_clients()
import kubernetes_validate  # noqa: E402
import yaml  # noqa: E402
from kubeflow_trainer_api import models  # noqa: E402

from manifests import mount_faults, mpijob_faults, pods  # noqa: E402

KUBERNETES = "1.32"
MPIJOB = ROOT / "examples/kubeflow/mpijob.yaml"
TRAINJOB = ROOT / "examples/kubeflow/trainjob.yaml"


def check_pods(test, manifest, count):
    found = pods(manifest)
    test.assertEqual(len(found), count)
    for pod in found:
        kubernetes_validate.validate(pod, KUBERNETES, strict=True)
        test.assertEqual(mount_faults(pod), [])
        test.assertEqual(pod["spec"]["securityContext"]["runAsUser"], 10001)  # not root, but a user that ssh knows


def check_arguments(test, container, ranks):
    """kiln accepts the arguments; its only errors are that the folders below /data do not exist."""
    test.assertEqual(container["command"], ["kiln"])
    test.assertIn(f"--ranks={ranks}", container["args"])
    test.assertIn(f"--expect-ranks={ranks}", container["args"])
    train = [word for word in container["args"][container["args"].index("--") + 1:]
             if not word.startswith(("--log-path", "--expect-ranks"))]
    done = subprocess.run([KILN, *train], capture_output=True, text=True, cwd=test.enterContext(tempfile.TemporaryDirectory()))
    test.assertEqual(done.returncode, 1, done.stderr)
    errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    missing = [word.partition("=")[2] for word in train if "=/data/" in word]
    test.assertEqual((len(missing), len(errors)), (3, 3), done.stderr)
    for path in missing:
        test.assertTrue(any(f"'{path}'" in line for line in errors), done.stderr)


def launcher_pod(manifest):
    """The pod whose process Kubernetes stops: the one without a GPU."""
    def has_gpu(pod):
        containers = pod["spec"]["containers"]
        return any("nvidia.com/gpu" in container.get("resources", {}).get("limits", {}) for container in containers)

    (pod,) = [pod for pod in pods(manifest) if not has_gpu(pod)]
    return pod["spec"]


class StopTest(unittest.TestCase):
    """A pod is moved: its first process gets SIGTERM, and SIGKILL after the grace period; the same container starts again."""
    EPOCHS = 6

    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        for words in (["demo-data", self.folder / "data", "--images", "60", "--size", "32"],
                      ["init-model", "resnet18", "--untrained-model-path", self.folder / "data/untrained"]):
            subprocess.run([KILN, *words], check=True, capture_output=True)
        (self.folder / "data/val").rename(self.folder / "data/valid")
        (self.folder / "out").mkdir()

    def words(self, container):
        """Its own, but for small data on two CPUs."""
        small = {"--ranks": 2, "--expect-ranks": 2, "--epochs": self.EPOCHS, "--batch-size": 24, "--num-warmup-steps": 0}
        words = [KILN]
        for word in container["args"]:
            name, equals, value = word.partition("=")
            if value.startswith(("/data", "/out")):
                value = f"{self.folder}{value}"
            words.append(f"{name}{equals}{small.get(name, value)}")
        return [*words, "--device=cpu", "--threads=1", "--loader-threads=1"]

    def test_mpijob(self):
        job = yaml.safe_load(MPIJOB.read_text())
        self.assertEqual(job["spec"]["mpiReplicaSpecs"]["Launcher"]["restartPolicy"], "OnFailure")
        pod = launcher_pod(job)
        (container,) = pod["containers"]
        process = start_until(self, "Epoch 2,", self.words(container), cwd=self.folder)
        process.terminate()
        output, _ = process.communicate(timeout=pod["terminationGracePeriodSeconds"])
        self.assertEqual(process.returncode, 143, output)
        done = subprocess.run(self.words(container), capture_output=True, text=True, cwd=self.folder)
        assert_resumed(self, done, self.folder / "out/model", self.folder / "out/logs", self.EPOCHS)

    def test_the_trainjob_is_the_same_job(self):
        runtime, job = yaml.safe_load_all(TRAINJOB.read_text())
        pod = launcher_pod(yaml.safe_load(MPIJOB.read_text()))
        self.assertEqual(job["spec"]["trainer"]["args"], pod["containers"][0]["args"])
        self.assertEqual(launcher_pod(runtime)["terminationGracePeriodSeconds"], pod["terminationGracePeriodSeconds"])


class MpiJobTest(unittest.TestCase):
    def setUp(self):
        self.job = yaml.safe_load(MPIJOB.read_text())

    def test_the_operator_accepts_it(self):
        self.assertEqual(mpijob_faults(self.job), [])
        check_pods(self, self.job, 2)

    def test_ranks_fit_the_slots(self):
        replicas = self.job["spec"]["mpiReplicaSpecs"]
        (worker,) = replicas["Worker"]["template"]["spec"]["containers"]
        slots = self.job["spec"]["slotsPerWorker"]
        self.assertEqual(worker["resources"]["limits"]["nvidia.com/gpu"], str(slots))
        (launcher,) = replicas["Launcher"]["template"]["spec"]["containers"]
        check_arguments(self, launcher, slots * replicas["Worker"]["replicas"])

    def test_the_rules_find_bad_edits(self):
        edits = {"unknown key spec.slots": lambda j: j["spec"].update(slots=4),
                 "unknown key spec.runPolicy.clean": lambda j: j["spec"]["runPolicy"].update(clean=1),
                 "it is no MPIJob": lambda j: j.update(apiVersion="kubeflow.org/v1"),
                 "neither Launcher nor Worker": lambda j: j["spec"]["mpiReplicaSpecs"].update(
                     Chief=j["spec"]["mpiReplicaSpecs"]["Worker"]),
                 "Launcher must have 1": lambda j: j["spec"]["mpiReplicaSpecs"]["Launcher"].update(replicas=2),
                 "Worker must have a replica": lambda j: j["spec"]["mpiReplicaSpecs"]["Worker"].pop("replicas"),
                 "name is too long": lambda j: j["metadata"].update(name="k" * 60),
                 "unknown key Worker.count": lambda j: j["spec"]["mpiReplicaSpecs"]["Worker"].update(count=1),
                 "the restartPolicy Never or": lambda j: j["spec"]["mpiReplicaSpecs"]["Worker"].update(restartPolicy="Always"),
                 "which is overridden": lambda j: j["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"].update(
                     restartPolicy="Never"),
                 "cleanPodPolicy must be": lambda j: j["spec"]["runPolicy"].update(cleanPodPolicy="Some"),
                 "backoffLimit is negative": lambda j: j["spec"]["runPolicy"].update(backoffLimit=-1),
                 "slotsPerWorker is negative": lambda j: j["spec"].update(slotsPerWorker=-1),
                 "mpiImplementation must be": lambda j: j["spec"].update(mpiImplementation="Open MPI")}
        for fault, edit in edits.items():
            with self.subTest(fault=fault):
                job = copy.deepcopy(self.job)
                edit(job)
                self.assertIn(fault, "; ".join(mpijob_faults(job)))

    def test_a_typo_in_a_pod_is_found(self):
        pod = pods(self.job)[0]
        pod["spec"]["containers"][0]["imagee"] = "kiln"
        with self.assertRaises(kubernetes_validate.ValidationError):
            kubernetes_validate.validate(pod, KUBERNETES, strict=True)
        pod["spec"]["containers"][0]["volumeMounts"] = [{"name": "nowhere", "mountPath": "/x"}]
        self.assertIn("nowhere, which is no volume", "".join(mount_faults(pod)))


class TrainJobTest(unittest.TestCase):
    def setUp(self):
        self.runtime, self.job = yaml.safe_load_all(TRAINJOB.read_text())

    def assert_known(self, model, manifest):
        """Trainer's types drop unknown keys: everything must be preserved."""
        self.assertEqual(model.from_dict(manifest).to_dict(), manifest)

    def test_trainer_knows_every_key(self):
        self.assertEqual((self.runtime["kind"], self.job["kind"]), ("TrainingRuntime", "TrainJob"))
        self.assert_known(models.TrainerV1alpha1TrainJob, self.job)
        self.assert_known(models.TrainerV1alpha1TrainingRuntime, self.runtime)
        self.assertEqual(self.job["spec"]["runtimeRef"]["name"], self.runtime["metadata"]["name"])
        check_pods(self, self.runtime, 2)

    def test_a_typo_is_found(self):
        self.job["spec"]["trainer"]["numNode"] = 2
        with self.assertRaises(AssertionError):
            self.assert_known(models.TrainerV1alpha1TrainJob, self.job)

    def test_ranks_fit_the_nodes(self):
        trainer, policy = self.job["spec"]["trainer"], self.runtime["spec"]["mlPolicy"]
        self.assertEqual((trainer["numNodes"], trainer["numProcPerNode"]),
                         (policy["numNodes"], policy["mpi"]["numProcPerNode"]))
        check_arguments(self, trainer, trainer["numNodes"] * trainer["numProcPerNode"])


if __name__ == "__main__":
    main()
