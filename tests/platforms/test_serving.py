"""examples/serving/: read by Kubernetes' schemas, KServe's types and systemd, and started with a model: their probes are
answered. And every manifest names an image that build-image.sh makes."""
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import unittest

from platforms import KILN, ROOT, main, use_clients

use_clients()
import kubernetes_validate  # noqa: E402
import yaml  # noqa: E402

from flow import FlowTest  # noqa: E402
from manifests import mount_faults, pods  # noqa: E402
from serving import Server  # noqa: E402

SERVING = ROOT / "examples/serving"
KUBERNETES = "1.32"
KSERVE = pathlib.Path(os.environ.get("KILN_SERVING_CLIENTS", ROOT / ".deps/serving"))
# Keys of a service that the Compose specification has.
COMPOSE_KEYS = {"image", "command", "ports", "volumes", "user", "read_only", "tmpfs", "cap_drop", "security_opt", "cpus",
                "mem_limit", "healthcheck", "stop_grace_period", "restart"}
SECONDS_ENDING = 30  # of kiln serve, after SIGTERM


def read(name):
    return list(yaml.safe_load_all((SERVING / name).read_text()))


class StartedTest(FlowTest):
    """The arguments of a manifest, with a trained model where it has one."""

    def start(self, words, **settings):
        words = [str(self.trained_model) if word.startswith("/") else word
                 for argument in words for word in argument.split("=") if not re.fullmatch("--(port|host)|127.*|8080", word)]
        self.assertEqual(words.pop(0), "serve")
        return Server(self, *words, **settings)

    def assert_probes(self, server, container):
        probes = {name: container[name] for name in container if name.endswith("Probe")}
        self.assertEqual(probes["readinessProbe"]["httpGet"]["path"], "/readyz")
        self.assertEqual(probes["livenessProbe"]["httpGet"]["path"], "/healthz")
        (port,) = container["ports"]
        for probe in probes.values():
            self.assertIn(probe["httpGet"]["port"], (port["containerPort"], port.get("name")))
            self.assertEqual(server.status("GET", probe["httpGet"]["path"]), 200)
        self.assertEqual(port["containerPort"], 8080)  # kiln serve's own

    def assert_closed(self, container, pod):
        both = {**pod.get("securityContext", {}), **container["securityContext"]}
        self.assertEqual((both["runAsNonRoot"], both["runAsUser"], both["allowPrivilegeEscalation"],
                          both["readOnlyRootFilesystem"], both["capabilities"]), (True, 10001, False, True, {"drop": ["ALL"]}))
        self.assertEqual(set(container["resources"]["limits"]), {"cpu", "memory"})
        self.assertIn("/tmp", [mount["mountPath"] for mount in container["volumeMounts"]])

    def test_deployment(self):
        """serving/deployment.yaml"""
        deployment, service = read("deployment.yaml")
        for manifest in (deployment, service):
            kubernetes_validate.validate(manifest, KUBERNETES, strict=True)
        (pod,) = pods(deployment)
        self.assertEqual(mount_faults(pod), [])
        self.assertEqual(service["spec"]["selector"], pod["metadata"]["labels"])
        self.assertGreater(pod["spec"]["terminationGracePeriodSeconds"], SECONDS_ENDING)
        (container,) = pod["spec"]["containers"]
        self.assert_closed(container, pod["spec"])
        self.assert_probes(self.start(container["args"]), container)
        container["imagee"] = "kiln"
        with self.assertRaises(kubernetes_validate.ValidationError):
            kubernetes_validate.validate(deployment, KUBERNETES, strict=True)

    def test_inference_service(self):
        """serving/inferenceservice.yaml, as KServe's types and clients know it."""
        runtime, service = read("inferenceservice.yaml")
        model = service["spec"]["predictor"]["model"]
        self.assertEqual(model["runtime"], runtime["metadata"]["name"])
        self.assertIn(model["modelFormat"]["name"], [one["name"] for one in runtime["spec"]["supportedModelFormats"]])
        self.assertEqual([model["protocolVersion"]], runtime["spec"]["protocolVersions"])
        (container,) = runtime["spec"]["containers"]
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod"},
               "spec": {name: runtime["spec"][name] for name in ("containers", "volumes")}}
        kubernetes_validate.validate(pod, KUBERNETES, strict=True)
        self.assertEqual(mount_faults(pod), [])
        self.assert_closed(container, {})
        place = self.folder / "model"  # for /mnt/models, which a test must not make
        place.symlink_to(self.trained_model)
        server = self.start(container["args"], cwd=self.folder)
        self.assert_probes(server, container)
        self.assertEqual(server.json("GET", "/v2/models/photos")[1]["name"], "photos")

    def test_kserve_knows_every_key(self):
        if not KSERVE.is_dir():
            self.skipTest(f"{KSERVE} is not there; environment/install.sh makes it from environment/wheels-serving.txt")
        script = """if True:
            import re, sys, yaml
            import kserve.models, kubernetes.client
            def unknown(kind, value):
                "The keys that a type of KServe's or Kubernetes' lacks."
                if inner := re.fullmatch(r"[Ll]ist\[(\w+)\]", kind):
                    return [key for one in value for key in unknown(inner[1], one)]
                known = getattr(kserve.models, kind, None) or getattr(kubernetes.client, kind, None)
                if known is None:  # a text, a number, a dictionary
                    return []
                kinds = {key: known.openapi_types[name] for name, key in known.attribute_map.items()}
                return [key for key in value if key not in kinds] + [
                    below for key in value if key in kinds for below in unknown(kinds[key], value[key])]
            kinds = {"ServingRuntime": "V1alpha1ServingRuntime", "InferenceService": "V1beta1InferenceService"}
            for path in sys.argv[1:]:
                print(*(key for one in yaml.safe_load_all(open(path)) for key in unknown(kinds[one["kind"]], one)))
            """
        environment = {**os.environ, "PYTHONPATH": str(KSERVE)}
        text, files = (SERVING / "inferenceservice.yaml").read_text(), []
        for right, wrong in (("", ""), ("storageUri:", "storageUrl:"), ("image:", "imagee:"), ("protocolVersions:", "protocols:")):
            files.append(self.folder / f"{len(files)}.yaml")
            files[-1].write_text(text.replace(right, wrong) if right else text)
        done = subprocess.run([sys.executable, "-c", script, *files], capture_output=True, text=True, env=environment)
        self.assertEqual(done.stdout.splitlines(), ["", "storageUrl", "imagee", "protocols"], done.stderr)

    def test_compose(self):
        """serving/compose.yaml; its health check asks a server."""
        (file,) = read("compose.yaml")
        self.assertEqual(set(file), {"services"})
        (service,) = file["services"].values()
        self.assertEqual(set(service) - COMPOSE_KEYS, set())
        self.assertEqual((service["read_only"], service["user"], service["cap_drop"]), (True, "10001:10001", ["ALL"]))
        self.assertGreater(int(service["stop_grace_period"].rstrip("s")), SECONDS_ENDING)
        server = self.start(service["command"])
        kind, *words = service["healthcheck"]["test"]
        self.assertEqual(kind, "CMD")
        check = [word.replace("/8080", f"/{server.port}") for word in words]
        self.assertNotEqual(check, words)
        self.assertEqual(subprocess.run(check, timeout=5).returncode, 0)
        server.end(15)
        self.assertNotEqual(subprocess.run(check, timeout=5, stderr=subprocess.DEVNULL).returncode, 0)

    def test_systemd_unit(self):
        """serving/kiln.service"""
        text = (SERVING / "kiln.service").read_text()
        fields = dict(line.split("=", 1) for line in text.splitlines() if "=" in line and line[0] != "#")
        program, *words = shlex.split(fields["ExecStart"])
        self.assertGreater(int(fields["TimeoutStopSec"]), SECONDS_ENDING)
        self.assertEqual((fields["DynamicUser"], fields["ProtectSystem"], fields["NoNewPrivileges"]), ("yes", "strict", "yes"))
        self.assertEqual(self.start(words).status("GET", "/readyz"), 200)
        if shutil.which("systemd-analyze") is None:
            self.skipTest("systemd-analyze is not there")
        unit = self.folder / "kiln.service"
        unit.write_text(text.replace(program, KILN))
        done = subprocess.run(["systemd-analyze", "verify", "--man=no", unit], capture_output=True, text=True)
        said = [line for line in done.stderr.splitlines() if "kiln.service" in line]
        self.assertEqual((done.returncode, said), (0, []), done.stderr)
        unit.write_text(text.replace(program, KILN).replace("DynamicUser", "DynamicUsr"))
        done = subprocess.run(["systemd-analyze", "verify", "--man=no", unit], capture_output=True, text=True)
        self.assertIn("DynamicUsr", done.stderr)


class ImageTest(unittest.TestCase):
    def test_manifests_name_what_build_image_makes(self):
        version = re.search(r"^project\(kiln VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text(), re.M)[1]
        script = (ROOT / "environment/build-image.sh").read_text()
        self.assertIn("image=${2:-kiln:$version-$variant}", script)
        made = {f"kiln:{version}-{variant}" for variant in ("cpu", "cuda")}
        files = [ROOT / "component.yaml", *(ROOT / "components").rglob("*.yaml"), *(ROOT / "examples").rglob("*"),
                 ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
        named = {(path.name, image) for path in files if path.is_file() and path.suffix != ".pyc"
                 for image in re.findall(r"kiln:\d[\w.-]*\w", path.read_text(encoding="utf-8"))}
        self.assertGreater(len(named), 25)
        self.assertEqual([pair for pair in sorted(named) if pair[1] not in made], [])


if __name__ == "__main__":
    main()
