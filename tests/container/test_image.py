"""The cpu image, its second stage built from what this machine has built already: what is inside, who may run it, how it
takes bad input, and that it trains to the same bits as the program outside."""
import csv
import json
import os
import pathlib
import subprocess
import tempfile
import time

from engine import ROOT
from image_case import ImageTest, prepare
from flow import KILN, files_below, kiln, main
from two_hosts import TwoHosts

USERS = ("0", "10001", "23456:23456")  # root, the image's own, and one that no passwd knows


def build_second_stage(engine):
    engine.check(ROOT / "environment/bundle.sh", "--whole", "cpu", built(engine) / "bundle", pathlib.Path(KILN).parent)
    return engine.build("cpu", built(engine))


def built(engine):
    """Where the bundle lies that takes the place of the first stage."""
    return engine.folder / "built"


def setUpModule():
    prepare(build_second_stage)


class InsideTest(ImageTest):
    def test_it_is_small(self):
        self.assertLess(self.engine.inspect(self.image)["Size"], 720e6)

    def test_what_platforms_look_at(self):
        config = self.engine.inspect(self.image)["Config"]
        self.assertEqual(config["Entrypoint"], ["kiln"])
        self.assertFalse(config.get("Cmd"))
        self.assertEqual(config["StopSignal"].removeprefix("SIG"), "TERM")
        self.assertFalse(config.get("User"))
        labels = {name.removeprefix("org.opencontainers.image."): text for name, text in config["Labels"].items()}
        version = subprocess.run([KILN, "--version"], capture_output=True, text=True).stdout.split()
        self.assertEqual([labels["version"], labels["licenses"]], [version[1], "Apache-2.0"])
        commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True)
        self.assertEqual(labels["revision"], commit.stdout.strip())
        for variable in ("HOME=/tmp", "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
                         "NVIDIA_VISIBLE_DEVICES=all", "NVIDIA_DRIVER_CAPABILITIES=compute,utility"):
            self.assertIn(variable, config["Env"])

    def test_nothing_that_is_not_needed(self):
        tools = self.shell("for tool in python3 pip gcc g++ cc ld git; do command -v $tool; done; true")
        self.assertEqual(tools, "")
        self.assertEqual(self.shell("ls /var/lib/apt/lists"), "")
        self.assertEqual(self.shell("find / -xdev -name 'ssh_host_*' -o -xdev -name 'id_*' -type f -path '*ssh*'"), "")
        self.assertEqual(self.shell("ls /opt/kiln/bin").split(), ["kiln"])
        self.assertEqual(self.shell("cd /opt/kiln/lib; ls *kiln* openmpi 2>/dev/null; true").split(),
                         ["libkiln.so", "libkiln_arrow.so", "libkiln_onednn.so", "libkiln_pictures.so", "libkiln_random.so"])
        self.assertNotIn("cuda.so", self.shell("ls /opt/kiln/lib"))

    def test_the_manual_page_and_completions_are_where_they_are_looked_for(self):
        share = pathlib.Path(KILN).parent / "share"
        for name in ("man/man1/kiln.1", "bash-completion/completions/kiln", "zsh/site-functions/_kiln",
                     "fish/vendor_completions.d/kiln.fish", "kiln/train.schema.json"):
            self.assertEqual(self.shell(f"cat /usr/local/share/{name}"), (share / name).read_text(), name)

    def test_a_key_only_where_it_was_asked_for(self):
        self.assertEqual(self.shell("ls -A /etc/kiln 2>/dev/null; true"), "")
        self.image = self.engine.build("cpu", built(self.engine), tag="with-key", SAGEMAKER_HOSTS_KEY="1")
        self.assertEqual(self.shell("ls -A /etc/kiln").split(), ["hosts_key", "hosts_key.pub"])
        self.assertEqual(self.shell("stat -c %a /etc/kiln/hosts_key").strip(), "600")

    def test_heic_only_where_it_was_asked_for(self):
        (self.folder / "photo.heic").write_bytes((ROOT / "tests/fuzz/seeds/heic/photo.heic").read_bytes())
        self.assertEqual(self.run_image("inspect", "/out/photo.heic").returncode, 1)
        self.assertEqual(self.shell("find / -xdev -name 'libheif*' -o -xdev -name 'libde265*' -o -xdev -name 'libx265*'"), "")
        self.image = self.engine.build("cpu", built(self.engine), tag="with-heic", HEIC="1")
        shown = self.run_image("inspect", "/out/photo.heic")
        self.assertEqual(shown.returncode, 0, shown.stderr)
        self.assertIn("HEIC image", shown.stdout)
        bill = json.loads(self.shell("cat /opt/kiln/bill-of-materials.cdx.json"))
        self.assertIn("libheif1", {component["name"] for component in bill["components"]})

    def test_what_is_opened_by_name(self):
        known = self.shell("ldconfig -p")
        for library in ("libibverbs.so.1", "libmlx5.so.1", "librdmacm.so.1"):
            self.assertIn(f"{library} ", known)
        for program in ("mpirun", "orted", "ssh", "bash", "kiln"):
            self.assertTrue(self.shell(f"command -v {program}"), program)

    def test_bill_of_materials_and_licenses(self):
        bill = json.loads(self.shell("cat /opt/kiln/bill-of-materials.cdx.json"))
        self.assertEqual((bill["bomFormat"], bill["metadata"]["component"]["name"]), ("CycloneDX", "kiln"))
        names = {component["name"] for component in bill["components"]}
        self.assertLessEqual({"torch", "nvidia-cuda-runtime", "libopenmpi3", "openssh-server", "libc6", "libjpeg62-turbo",
                              "libboost-program-options1.74.0", "libopencv-imgproc406", "liblapack3",
                              "nlohmann-json3-dev"}, names)
        self.assertTrue(all(component["version"] and component["purl"] for component in bill["components"]))
        kept = self.shell("ls /opt/kiln/licenses; cd /usr/share/doc; ls -d */copyright").replace("/copyright", "").split()
        self.assertEqual(names - set(kept), set())


class RunTest(ImageTest):
    def test_every_user_trains_with_two_ranks(self):
        for user in USERS:
            with self.subTest(user=user):
                out = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
                out.chmod(0o777)
                inside = f"/out/{out.name}"
                done = self.run_image(*self.train_words(ranks=2, trained_model_path=f"{inside}/model",
                                                        log_path=f"{inside}/logs"), user=user)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                self.assertIn("2 on host", done.stdout)
                self.assertEqual((out / "model/_meta.yaml").stat().st_uid, int(user.split(":")[0]))

    def test_same_bits_as_outside(self):
        training = {"epochs": 2, "augment": "standard", "threads": 1}
        done = self.run_image(*self.train_words(**training))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        done = self.train(trained_model_path=self.folder / "outside", **training)
        self.assertEqual(done.returncode, 0, done.stderr)
        inside, outside = files_below(self.folder / "model"), files_below(self.folder / "outside")
        self.assertEqual(inside.keys(), outside.keys())
        for name in ("model", "model.safetensors", "index_to_label.csv"):
            self.assertEqual(inside[name], outside[name], name)

    def test_the_example(self):
        engine = str(self.engine.in_place_of_docker())
        for turn in ("first", "second"):
            done = subprocess.run([ROOT / "examples/docker.sh", self.image, self.folder], capture_output=True, text=True,
                                  env={**self.engine.environment, "ENGINE": engine})
            self.assertEqual(done.returncode, 0, turn + done.stdout + done.stderr)
        self.assertTrue((self.folder / "model/_meta.yaml").exists())

    def test_output_is_a_mount_of_another_file_system(self):
        with tempfile.TemporaryDirectory(dir="/dev/shm") as other:
            os.chmod(other, 0o777)
            done = self.run_image(*self.train_words(trained_model_path="/elsewhere"),
                                  options=["--volume", f"{other}:/elsewhere"])
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertTrue((pathlib.Path(other) / "_meta.yaml").exists())

    def test_a_job_of_two_pods_over_ssh(self):
        """As the MPI operator runs it: sshd in the worker, mpirun in the launcher, one key pair mounted in both."""
        self.run_job_of_two_pods("0", "/root/.ssh", 0o600, ["-De"])

    def test_a_job_of_two_pods_without_root(self):
        """As the examples for Kubeflow have it; the key belongs to root's group, as Trainer mounts it."""
        self.run_job_of_two_pods("10001", "/tmp/.ssh", 0o640, ["-De", "-f", "/etc/ssh/sshd_user_config"])

    def run_job_of_two_pods(self, user, place, mode, server):
        hosts = TwoHosts()
        hosts.plug_in_for(self)
        keys = self.folder / "keys"
        keys.mkdir()
        subprocess.run(["ssh-keygen", "-q", "-t", "rsa", "-N", "", "-f", keys / "id_rsa"], check=True)
        (keys / "authorized_keys").write_bytes((keys / "id_rsa.pub").read_bytes())
        (keys / "id_rsa").chmod(mode)
        (self.folder / "hostfile").write_text("10.77.0.1 slots=1\n10.77.0.2 slots=1\n")

        key = ["--volume", f"{keys}:{place}:ro"]
        networks = [f"ns:/run/netns/{name}" for name in hosts.spaces]
        self.start(*server, user=user, network=networks[1], options=[*key, "--hostname", "pod1",
                                                                     "--entrypoint", "/usr/sbin/sshd"])
        launcher = [*key, "--hostname", "pod0", "--entrypoint", "mpirun",
                    "--volume", f"{self.folder}/hostfile:/etc/mpi/hostfile:ro",
                    "--env", "OMPI_MCA_orte_default_hostfile=/etc/mpi/hostfile",
                    "--env", "OMPI_MCA_orte_keep_fqdn_hostnames=true",
                    "--env", "OMPI_MCA_plm_rsh_args=-o ConnectionAttempts=10"]
        done = self.run_image("-np", 2, "kiln", *self.train_words(expect_ranks=2), user=user, network=networks[0],
                              options=launcher)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("2 on hosts pod0, pod1", done.stdout)
        self.assertTrue((self.folder / "model/_meta.yaml").exists())


class BadInputTest(ImageTest):
    def assert_refused_in_image(self, done, exit_code, *words):
        self.assertEqual(done.returncode, exit_code, done.stdout + done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)
        self.assertFalse((self.folder / "model/_meta.yaml").exists())

    def test_no_arguments(self):
        self.assert_refused_in_image(self.run_image(), 2, "Usage: kiln COMMAND", "--help")

    def test_output_that_the_user_may_not_write(self):
        self.folder.chmod(0o755)
        for path in ("/out/model", "/out"):
            with self.subTest(path=path):
                done = self.run_image(*self.train_words(log_path="/tmp/logs", trained_model_path=path))
                self.assert_refused_in_image(done, 3, path, "Permission denied for user 10001")

    def test_too_little_shared_memory(self):
        done = self.run_image(*self.train_words(ranks=2), options=["--shm-size", "1m"])
        self.assert_refused_in_image(done, 1, "/dev/shm has 1 MiB", "--shm-size=1g")

    def test_input_mounted_as_a_file(self):
        file = self.folder / "file"
        file.write_text("not images")
        done = self.run_image(*self.train_words(train_data_path="/data"), options=["--volume", f"{file}:/data:ro"])
        self.assert_refused_in_image(done, 1, "/data")

    def test_sigterm_from_the_start(self):
        """Process 1 of a container hears only the signals that it has a handler for."""
        drawing = ["demo-data", "--output-path", "/out/data", "--images", 1000000]
        for words in (self.train_words(epochs=1000000), drawing):
            with self.subTest(command=words[0]):
                container = self.start(*words)
                process = self.engine.inspect(container)["State"]["Pid"]
                last = time.monotonic() + 60
                while not self.listens(process):
                    self.assertLess(time.monotonic(), last, "it never listens")
                    time.sleep(0.01)
                self.engine.podman("kill", "--signal", "TERM", container)
                self.assertEqual(self.engine.podman("wait", container).stdout.strip(), "143")
                self.assertFalse((self.folder / "model/_meta.yaml").exists())

    def test_it_serves(self):
        """Asked from within its network, where port 8080 would be published."""
        photo = next(path for path in sorted((self.data / "val").rglob("*")) if path.is_file())
        container = self.start("serve", "--trained-model-path", f"/in/{self.trained_model.relative_to(self.shared_folder)}")
        process = self.engine.inspect(container)["State"]["Pid"]
        asked = self.engine.call("nsenter", "--target", process, "--net", "curl", "-sf", "--retry", 40, "--retry-delay", 1,
                                 "--retry-connrefused", "--data-binary", f"@{photo}", "http://127.0.0.1:8080/predict")
        self.assertEqual(asked.returncode, 0, self.engine.podman("logs", container).stdout)
        done = kiln("score", photo, "--trained-model-path", self.trained_model, "--output-path", self.folder / "scores.csv")
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(self.folder / "scores.csv", newline="") as file:
            self.assertEqual(json.loads(asked.stdout)["label"], next(csv.DictReader(file))["label"])
        self.assertRegex(self.engine.podman("logs", container).stdout, r"serving: +http://0\.0\.0\.0:8080")
        self.engine.podman("kill", "--signal", "TERM", container)
        self.assertEqual(self.engine.podman("wait", container).stdout.strip(), "0")

    @staticmethod
    def listens(process):
        status = pathlib.Path(f"/proc/{process}/status").read_text()
        caught = next(line.split()[1] for line in status.splitlines() if line.startswith("SigCgt"))
        return int(caught, 16) & 1 << 14 != 0


if __name__ == "__main__":
    main()
