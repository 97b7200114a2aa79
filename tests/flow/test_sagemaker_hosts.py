"""A SageMaker job of two hosts with a folder, a host name and an sshd each. The same bare `kiln train` is started in both, and
nothing else."""
import json
import os
import shutil
import signal
import subprocess
import time

from flow import KILN, FlowTest, kiln, main
from two_hosts import TwoHosts

NAMES = ("algo-1", "algo-2")


class Hosts(TwoHosts):
    def __init__(self, folder):
        super().__init__()
        self.folder = folder
        addresses = [f"{address} {name}\n" for address, name in zip(self.addresses, NAMES)]
        (folder / "hosts").write_text("127.0.0.1 localhost\n" + "".join(addresses))
        (folder / "ml").mkdir()

    def plug(self):
        for program in ("unshare", "ssh", "ssh-keygen"):
            if shutil.which(program) is None:
                return f"the program {program} is not installed"
        if shutil.which("sshd", path=os.environ["PATH"] + ":/usr/sbin") is None:
            return "the program sshd is not installed"
        return super().plug()

    def start(self, host, output, environment):
        """The job's process on host 0 or 1, whose own folder lies at the place that both know."""
        own, place = self.folder / NAMES[host], self.folder / "ml"
        script = (f"hostname {NAMES[host]}; mount --bind '{self.folder}/hosts' /etc/hosts; mount --bind '{own}' '{place}'; "
                  f"exec '{KILN}' train")
        command = ["ip", "netns", "exec", self.spaces[host], "unshare", "--uts", "--mount", "--propagation", "private", "sh",
                   "-c", script]
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                                cwd=self.folder, env={**os.environ, "SAGEMAKER_BASE_DIR": str(place), **environment})


class HostsTest(FlowTest):
    """Lays out and starts jobs; has no tests itself."""

    def setUp(self):
        super().setUp()
        if os.geteuid() != 0:
            self.skipTest("two hosts are made by root alone")
        self.hosts = Hosts(self.folder)
        self.hosts.plug_in_for(self)
        self.key = self.folder / "hosts_key"
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.key], check=True)

    def at_night(self):
        if os.environ.get("KILN_NIGHTLY") != "1":
            self.skipTest("only with KILN_NIGHTLY=1")

    def lay_out(self, distribution="FullyReplicated", pipes=(), **hyperparameters):
        """`pipes`: names of channels in Pipe mode, in place of those of files."""
        channels = {name: {"TrainingInputMode": "Pipe", **({"S3DistributionType": distribution} if name.startswith("train") else {})}
                    for name in pipes} or {
            "train": {"S3DistributionType": distribution}, "validation": {}}
        for name in NAMES:
            tree = self.folder / name
            for below in ("input/config", "input/data", "model", "output/data"):
                (tree / below).mkdir(parents=True)
            for channel, part in (() if pipes else (("train", "train"), ("validation", "val"))):
                (tree / "input/data" / channel).symlink_to(self.data / part)
            files = {"resourceconfig": {"current_host": name, "hosts": list(NAMES), "network_interface_name": "eth0"},
                     "inputdataconfig": channels,
                     "hyperparameters": {"model_name": "resnet18", "epochs": "1", "batch_size": "24", "threads": "1",
                                         "loader_threads": "1", "device": "cpu", **hyperparameters}}
            for file, content in files.items():
                (tree / f"input/config/{file}.json").write_text(json.dumps(content))

    def start(self):
        jobs = []
        for host in (0, 1):
            with open(self.output_path(host), "wb") as output:
                jobs.append(self.hosts.start(host, output, {"KILN_HOSTS_KEY": str(self.key)}))
        self.addCleanup(lambda: [job.wait() for job in jobs])
        self.addCleanup(lambda: [job.kill() for job in jobs])
        return jobs

    def output_path(self, host):
        return self.folder / f"{NAMES[host]}.txt"

    def outputs(self):
        paths = [path for host in (0, 1) if (path := self.output_path(host)).exists()]
        return "\n".join(f"{path.stem}:\n{path.read_text(errors='replace')}" for path in paths)

    def assert_end(self, jobs, code, leader_code=None):
        ended = [job.wait(200) for job in jobs]
        self.assertEqual(ended, [code if leader_code is None else leader_code, code], self.outputs())
        last = time.monotonic() + 10
        while self.hosts.processes() and time.monotonic() < last:
            time.sleep(0.1)
        self.assertEqual(self.hosts.processes(), set(), self.outputs())

    def wait_for(self, text):
        last = time.monotonic() + 120
        while text not in self.output_path(0).read_text(errors="replace"):
            self.assertLess(time.monotonic(), last, self.outputs())
            time.sleep(0.1)

    def failure(self, host):
        return (self.folder / NAMES[host] / "output/failure").read_text()

    def assert_model_of_the_leader_alone(self):
        self.assertEqual(kiln("inspect", self.folder / "algo-1/model").returncode, 0)
        self.assertEqual(list((self.folder / "algo-2/model").iterdir()), [])


class TwoHostsTest(HostsTest):
    def long_job(self):
        self.lay_out(epochs="100000", patience="100000")
        jobs = self.start()
        self.wait_for("Epoch 2,")
        return jobs

    def test_success(self):
        self.lay_out(sagemaker_mpi_custom_mpi_options="-x FI_PROVIDER=tcp")
        self.assert_end(self.start(), 0)
        self.assert_model_of_the_leader_alone()
        self.assertIn(" -x FI_PROVIDER ", (self.folder / "algo-1/output/data/logs/70_mpi_log.txt").read_text())
        self.assertTrue((self.folder / "algo-2/output/data/logs/70_driver_log_1.txt").exists())
        self.assertFalse((self.folder / "algo-2/output/failure").exists())

    def test_every_host_has_its_own_images(self):
        self.at_night()
        self.lay_out("ShardedByS3Key")
        for number, name in enumerate(NAMES):
            channel = self.folder / name / "input/data/train"
            channel.unlink()
            shutil.copytree(self.data / "train", channel)
            for place, image in enumerate(sorted(path for path in channel.rglob("*") if path.is_file())):
                if place % 2 != number:
                    image.unlink()
        self.assert_end(self.start(), 0)
        self.assert_model_of_the_leader_alone()
        self.assertIn("--shard-by=train", self.output_path(0).read_text())

    def test_failure_is_told_on_both(self):
        self.lay_out(batch_size="1000")
        self.assert_end(self.start(), 1)
        for host in (0, 1):
            self.assertIn("Batch size", self.failure(host))
        self.assertFalse((self.folder / "algo-1/model/_meta.yaml").exists())

    def test_wrong_hyperparameter(self):
        self.at_night()
        self.lay_out(epochs="0")
        self.assert_end(self.start(), 1)
        self.assertIn("--epochs", self.failure(1))

    def test_leader_is_killed(self):
        jobs = self.long_job()
        jobs[0].kill()
        self.assert_end(jobs, 3, leader_code=-signal.SIGKILL)
        self.assertIn("algo-1", self.failure(1))

    def test_follower_is_killed(self):
        self.at_night()
        jobs = self.long_job()
        jobs[1].kill()
        code = jobs[0].wait(120)
        self.assertGreater(code, 0, self.outputs())
        self.assertIn("algo-2", self.failure(0))

    def test_stop(self):
        self.at_night()
        jobs = self.long_job()
        for job in jobs:
            job.terminate()
        self.assert_end(jobs, 143)
        self.assert_model_of_the_leader_alone()

    def test_without_a_key(self):
        self.lay_out()
        self.key.unlink()
        self.assert_end(self.start(), 1)
        for host in (0, 1):
            self.assertIn("SAGEMAKER_HOSTS_KEY=1", self.failure(host))

    def test_a_stranger_with_another_key_is_not_let_in(self):
        """Two jobs whose images hold different keys: ssh between them is refused."""
        self.lay_out()
        with open(self.output_path(1), "wb") as output:
            job = self.hosts.start(1, output, {"KILN_HOSTS_KEY": str(self.key)})
        self.addCleanup(job.wait)
        self.addCleanup(job.kill)
        stranger = self.folder / "stranger"
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", stranger], check=True)
        command = ["ip", "netns", "exec", self.hosts.spaces[0], "ssh", "-i", stranger, "-p", "2222", "-o", "BatchMode=yes",
                   "-o", "IdentitiesOnly=yes", "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null",
                   f"root@{self.hosts.addresses[1]}", "true"]
        last = time.monotonic() + 120
        while "refused" in (said := subprocess.run(command, capture_output=True, text=True).stderr):
            self.assertLess(time.monotonic(), last, said + self.outputs())
            time.sleep(0.2)
        self.assertIn("Permission denied", said)
        accepted = [self.key if word == stranger else word for word in command]
        self.assertEqual(subprocess.run(accepted, capture_output=True).returncode, 0)


if __name__ == "__main__":
    main()
