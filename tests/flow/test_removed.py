"""What earlier builds of 0.1 had is answered with what became of it: on a command line, in a --config file, in a checkpoint."""
import json
import struct

from flow import FlowTest, kiln, main
from resumed_runs import Job, assert_refused

# Options and values that cannot be given any more.
TRAIN = {"optimizer": "lars", "zero-init-residual": "True", "image-size": "128:224", "gradient-dtype": "bf16"}


def content_hash(data):
    """The hash of a file in checkpoint.json (src/base/content_hash.h)."""
    def mixed(value, word):
        value = ((value ^ word) * 0xBF58476D1CE4E5B9) % 2**64
        return value ^ value >> 27

    lanes = [0] * 4
    for at in range(0, len(data) // 32 * 32 + 32, 32):
        lanes = [mixed(lane, word) for lane, word in zip(lanes, struct.unpack("<4Q", data[at:at + 32].ljust(32, b"\0")))]
    value = len(data)
    for lane in lanes:
        value = mixed(value, lane)
    return f"{value:016x}"


class RemovedTest(FlowTest):
    def test_on_a_command_line_and_in_a_config_file(self):
        for name, value in TRAIN.items():
            with self.subTest(name=name):
                self.assert_refused(kiln("train", self.data, f"--{name}", value, cwd=self.folder), 2, f"--{name}", "was removed")
                file = self.folder / "run.yaml"
                file.write_text(f"epochs: 1\n{name}: {value}\n")
                self.assert_refused(kiln("train", self.data, "--config", file, cwd=self.folder), 2, name, "line 2", "was removed")

    def test_of_other_commands(self):
        result = kiln("inspect", self.data, "--augment", "flip", "--output-path", self.folder / "page.html")
        self.assert_refused(result, 2, "--augment", "--output-path", "was removed")
        self.assertFalse((self.folder / "page.html").exists())

    def write_state(self, checkpoint, state):
        """In place of the state of a checkpoint."""
        data = json.dumps(state).encode()
        (checkpoint / "state.json").write_bytes(data)
        manifest = json.loads((checkpoint / "checkpoint.json").read_text())
        manifest["files"][0].update(bytes=len(data), content_hash=content_hash(data))
        (checkpoint / "checkpoint.json").write_text(json.dumps(manifest))

    def test_in_a_checkpoint(self):
        job = Job(self.folder / "run", self.untrained, self.data, epochs=1)
        self.assertEqual(job.run()[0], 0)
        checkpoint = max(job.folder.glob("checkpoints/checkpoint-*"))
        state = json.loads((checkpoint / "state.json").read_text())
        usual = state["options"]
        for name, value in TRAIN.items():
            with self.subTest(name=name):
                self.write_state(checkpoint, {**state, "options": {**usual, name: value}})
                assert_refused(self, job, f"--{name} {value} was removed", "--resume never", state["machine"]["version"])
        self.write_state(checkpoint, state)
        code, output = job.run()
        self.assertEqual(code, 0, output)


if __name__ == "__main__":
    main()
