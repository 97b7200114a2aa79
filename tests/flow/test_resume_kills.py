"""kill -9 at random moments of short runs with a checkpoint at every second step, until they end: the final model is that of an
undisturbed run. KILN_KILLS says how many kills (10), KILN_SEED where they fall."""
import os
import random
import shutil
import signal
import time

from flow import FlowTest, main
from resumed_runs import PATIENCE, Job, differences

KILLS = int(os.environ.get("KILN_KILLS", "10"))
SEED = int(os.environ.get("KILN_SEED", "1"))


def processes_of(session):
    """The numbers of all processes of a session."""
    found = []
    for name in os.listdir("/proc"):
        try:
            if name.isdigit() and os.getsid(int(name)) == session:
                found.append(int(name))
        except ProcessLookupError:
            pass
    return found


def is_rank(process):
    try:
        with open(f"/proc/{process}/environ", "rb") as file:
            return b"OMPI_COMM_WORLD_RANK=" in file.read()
    except OSError:
        return False


class KillTest(FlowTest):
    def job(self, name, ranks):
        return Job(self.folder / f"{name}{ranks}", self.untrained, self.data, ranks, batch_size=16 // ranks,
                   checkpoint_every="2steps", augment="standard")

    def kill_until_the_end(self, job, seconds, draw, most):
        """Starts the job and kills it, again and again; returns how many kills it took."""
        kills = 0
        while True:
            process = job.start()
            if kills < most:
                time.sleep(draw.uniform(0.2, 1.1) * seconds)
                if process.poll() is None:
                    kills += 1
                    everybody = processes_of(process.pid)
                    ranks = [one for one in everybody if is_rank(one)]
                    only_one = ranks and draw.random() < 0.5
                    for one in [draw.choice(ranks)] if only_one else everybody:
                        try:
                            os.kill(one, signal.SIGKILL)
                        except ProcessLookupError:
                            pass
            output, _ = process.communicate(timeout=PATIENCE)
            if process.returncode == 0:
                return kills
            self.assertLess(kills, most + 1, output)
            if kills == most and process.returncode > 0:
                self.assertNotIn(process.returncode, (1, 2, 3), output)

    def test_the_model_is_that_of_an_undisturbed_run(self):
        draw = random.Random(SEED)
        kills = {1: 0, 2: 0}
        straight = {}
        for ranks in kills:
            straight[ranks] = self.job("straight", ranks)
            begin = time.monotonic()
            code, output = straight[ranks].run()
            self.assertEqual(code, 0, output)
            straight[ranks].seconds = time.monotonic() - begin
        number = 0
        while sum(kills.values()) < KILLS:
            ranks = 1 + number % 2
            number += 1
            resumed = self.job(f"resumed{number}-", ranks)
            most = min(5, KILLS - sum(kills.values()))
            kills[ranks] += self.kill_until_the_end(resumed, straight[ranks].seconds, draw, most)
            self.assertEqual(differences(straight[ranks], resumed), [], f"seed {SEED}, job {number}")
            shutil.rmtree(resumed.folder)
        print(f"{kills[1]} kills of one rank and {kills[2]} of jobs of two, seed {SEED}")


if __name__ == "__main__":
    main()
