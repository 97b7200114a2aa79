"""Kubeflow's intermediate representation of every component here: python compile.py OUT-FOLDER

What Kubeflow's user interface takes as a pipeline of one step. Made for a release, not kept in the repository.
"""
import pathlib
import sys

from kfp import compiler, components

HERE = pathlib.Path(__file__).parent


def compile_all(out):
    out.mkdir(parents=True, exist_ok=True)
    for path in sorted(HERE.glob("*.yaml")):
        compiler.Compiler().compile(components.load_component_from_file(str(path)), str(out / path.name))


if __name__ == "__main__":
    compile_all(pathlib.Path(sys.argv[1]))
