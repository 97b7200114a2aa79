#!/usr/bin/env python3
"""The wheel beside an installed torch, wherever pip puts it, and after pip has removed it."""
import os
import pathlib

from release_case import FIRST_MINUTE, ReleaseTest, made, main, require_night, start_engine

TORCH = pathlib.Path(os.environ.get("KILN_TORCH_ROOT", "")).resolve()

# LibTorch as installed in the folder of packages $1; its files are not copied.
BEGIN = """
export PIP_NO_INDEX=1 PIP_NO_DEPS=1 PIP_BREAK_SYSTEM_PACKAGES=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
give_torch() { mkdir -p $1; ln -s /torch/torch /torch/nvidia /torch/torch-*.dist-info $1/; }
install() { pip install --quiet --no-warn-script-location "$@" /release/*.whl; }
works() { rm -rf untrained; $1 init-model resnet18 --untrained-model-path untrained; echo works as $1; }
python3 -m venv --without-pip venv
packages=$(echo $PWD/venv/lib/python3*/site-packages)
"""
IN_VENV = BEGIN + 'give_torch $packages; pip --python venv/bin/python install --quiet /release/*.whl; PATH=$PWD/venv/bin:$PATH\n'


def setUpModule():
    start_engine()
    made("*.whl", "wheel")


class WheelTest(ReleaseTest):
    def run_python(self, script, *options, suite="bookworm", **settings):
        return self.run_bare(self.engine.base(suite, "python3-pip"), script, "--volume", f"{TORCH}:/torch:ro",
                             *options, **settings)

    def test_virtual_environment(self):
        for suite, user in (("bookworm", "10001"), ("trixie", "0")):
            with self.subTest(suite=suite, user=user):
                output = self.assert_done(self.run_python(IN_VENV + FIRST_MINUTE, suite=suite, user=user))
                self.assert_soon(output, f"wheel, {suite}, {user}")

    def test_a_symbolic_link_to_it(self):
        script = IN_VENV + "mkdir links; ln -s ../venv/bin/kiln links/kiln; works links/kiln"
        self.assert_done(self.run_python(script))

    def test_in_a_folder_and_for_one_user(self):
        script = BEGIN + """
install --target target; give_torch target; works target/bin/kiln
export HOME=$PWD/home; mkdir home
install --user; give_torch $(echo home/.local/lib/python3*/site-packages); works home/.local/bin/kiln
"""
        self.assert_done(self.run_python(script, user="10001"))

    def test_beside_a_torch_of_the_system(self):
        """In dist-packages, and in a virtual environment that sees the packages of the system."""
        script = BEGIN + """
system=$(python3 -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
give_torch $system
install; works /usr/local/bin/kiln
pip uninstall --quiet --yes kiln-trainer
pip --python venv/bin/python install --quiet /release/*.whl
sed -i 's/^include-system-site-packages.*/include-system-site-packages = true/' venv/pyvenv.cfg
works venv/bin/kiln
"""
        self.assert_done(self.run_python(script, "--read-only=false"))

    def test_nothing_stays_behind(self):
        script = IN_VENV + """
works venv/bin/kiln
cd venv/share; ls man/man1/kiln.1 bash-completion/completions/kiln zsh/site-functions/_kiln kiln/train.schema.json; cd -
pip --python venv/bin/python uninstall --quiet --yes kiln-trainer
! find venv -iname '*kiln*' | grep .
"""
        self.assert_done(self.run_python(script))

    def test_imported(self):
        """The package finds the program beside it, trains, answers, and says what is wrong."""
        script = IN_VENV + """
kiln demo-data --output-path photos --images 40 --classes 2
python - <<'END'
import kiln_trainer as kiln
run = kiln.train("photos/train", "photos/val", epochs=1, run_path="run", quiet=True)
assert len(run.epochs) == 1
with run.model as model:
    assert len(model.predict(sorted(run.model_path.parents[1].glob("photos/val/*/*")))) > 0
try:
    kiln.Model("missing").predict([])
except kiln.Error as error:
    assert error.code == 2, error
END
"""
        self.assert_done(self.run_python(script, user="10001"))

    def test_without_torch(self):
        script = IN_VENV.replace("give_torch $packages;", "") + "kiln init-model resnet18 --untrained-model-path untrained"
        done = self.run_python(script)
        self.assertEqual(done.returncode, 3, done.stdout + done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1)
        self.assertIn("torch==", done.stderr)


if __name__ == "__main__":
    require_night()
    main()
