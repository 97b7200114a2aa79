"""What a person sees: kiln on a real terminal of a given width."""
import codecs
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time

from flow import KILN, FlowTest, main

REDRAW = "\r\x1b[K"


class Terminal:
    """A program with a terminal of `columns` as its standard output and error."""

    def __init__(self, words, columns=80, environment=None):
        self.main_side, program_side = pty.openpty()
        fcntl.ioctl(program_side, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        settings = {"TERM": "xterm-256color", "LANG": "C.UTF-8", **(environment or {})}
        kept = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "LC_ALL", "LC_CTYPE")}
        self.begin, self.text = time.monotonic(), ""
        self.decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.process = subprocess.Popen([*map(str, words)], stdin=subprocess.DEVNULL, stdout=program_side,
                                        stderr=program_side, env={**kept, **settings}, start_new_session=True)
        os.close(program_side)

    def read(self, patience=60):
        """False at the end."""
        if not select.select([self.main_side], [], [], patience)[0] or time.monotonic() > self.begin + 2 * patience:
            raise AssertionError(f"it neither ends nor tells more:\n{self.text[-2000:]}")
        try:
            self.text += self.decoder.decode(os.read(self.main_side, 65536))
        except OSError:  # nobody has the other side any more
            return False
        return True

    def read_until(self, word):
        while word not in self.text:
            if not self.read():
                raise AssertionError(f"'{word}' never came:\n{self.text}")

    def end(self):
        """The exit code, when all was read."""
        while self.read():
            pass
        self.seconds = time.monotonic() - self.begin
        os.close(self.main_side)
        return self.process.wait()

    def lines(self):
        """All that stood on a line at some time, redrawn ones apart."""
        return [piece for line in self.text.split("\r\n") for piece in line.split(REDRAW)]

    def live_lines(self):
        return [line for line in self.lines() if re.match(r"epoch \d+/", line)]

    def left(self):
        """The lines that stay when all is drawn."""
        return [line.split(REDRAW)[-1] for line in self.text.split("\r\n")]


class TerminalTest(FlowTest):
    def start(self, *words, **settings):
        terminal = Terminal([KILN, *words], **settings)
        self.addCleanup(terminal.process.kill)
        return terminal

    def start_training(self, columns=80, environment=None, **options):
        words = self.train_arguments(**{"threads": 1, "loader_threads": 1, "print_freq": 1, "epochs": 2, **options})
        return self.start(*words, columns=columns, environment=environment)

    def train_on_terminal(self, **settings):
        terminal = self.start_training(**settings)
        self.assertEqual(terminal.end(), 0, terminal.text)
        return terminal

    def assert_ends_on_a_fresh_line(self, terminal):
        self.assertTrue(terminal.text.endswith("\r\n"), repr(terminal.text[-200:]))
        self.assertEqual([line for line in terminal.left() if line in terminal.live_lines()], [])
        self.assertNotIn("\x1b", "".join(terminal.left()))

    def test_one_line_that_is_redrawn_ten_times_a_second_at_most(self):
        terminal = self.train_on_terminal(columns=120, batch_size=4)
        self.assertGreater(len(terminal.live_lines()), 2)
        self.assertLessEqual(terminal.text.count(REDRAW + "epoch"), 10 * terminal.seconds + 1)
        parts = r"epoch \d/2 \[[█░]+\] \d+/\d+  \d+ images/s  loss \d\.\d+  top-1 [\d.]+ %  data wait \d+ %  left \d+ s"
        self.assertTrue(any(re.fullmatch(parts, line) for line in terminal.live_lines()), terminal.live_lines())
        self.assert_ends_on_a_fresh_line(terminal)

    def test_it_fits_the_terminal(self):
        for columns in (24, 80):
            with self.subTest(columns=columns):
                terminal = self.train_on_terminal(columns=columns, epochs=1, trained_model_path=self.folder / f"model{columns}")
                # Two more are for the ^C of who stops it.
                self.assertLessEqual(max(map(len, terminal.live_lines())), columns - 3)
                self.assert_ends_on_a_fresh_line(terminal)
                if columns >= 80:
                    result = terminal.left().index("result")
                    self.assertLess(max(map(len, terminal.left()[result - 5:result])), 80)

    def test_a_line_tells_every_epoch(self):
        terminal = self.train_on_terminal()
        told = [line for line in terminal.left() if re.match(r"epoch \d: train loss", line)]
        self.assertEqual(len(told), 2)
        self.assertLess(max(map(len, told)), 80)
        log = (self.folder / "logs/70_driver_log_0.txt").read_text()
        self.assertEqual(len(re.findall(r"Epoch \d,train_ips", log)), 2)

    def test_plain_lines_where_they_are_asked_for(self):
        for name, value in (("NO_COLOR", "1"), ("TERM", "dumb")):
            with self.subTest(case=name):
                terminal = self.train_on_terminal(environment={name: value}, epochs=1,
                                                  trained_model_path=self.folder / f"model {name}")
                self.assertNotIn("\x1b", terminal.text)
                self.assertNotIn("\r", terminal.text.replace("\r\n", ""))
                self.assert_names(terminal.text, "Epoch 1,train_ips")

    def test_however_it_ends_the_next_line_is_fresh(self):
        stopped = self.start_training(epochs=1000, patience=1000)
        stopped.read_until(REDRAW + "epoch 1/1000")
        os.kill(stopped.process.pid, signal.SIGINT)
        self.assertEqual(stopped.end(), 130)
        self.assert_ends_on_a_fresh_line(stopped)

        killed = self.start_training(epochs=1000, patience=1000)
        killed.read_until(REDRAW + "epoch 1/1000")
        for number in (signal.SIGINT, signal.SIGTERM):  # who is impatient sends two
            os.kill(killed.process.pid, number)
        self.assertIn(killed.end(), (130, 143))
        self.assertTrue(killed.text.endswith("\r\n"), repr(killed.text[-200:]))

        failed = self.start_training(epochs=1000, patience=1000, learning_rate=1000)
        self.assertEqual(failed.end(), 3)
        self.assertIn("error: ", failed.left()[-2])
        self.assert_ends_on_a_fresh_line(failed)


if __name__ == "__main__":
    main()
