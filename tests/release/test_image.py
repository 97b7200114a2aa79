#!/usr/bin/env python3
"""The file of the image: any tool that reads the OCI layout takes it, and it is as small as promised."""
import json
import subprocess
import tarfile

from release_case import BUILD, LIMITS, OUT, ROOT, ReleaseTest, main, require_night, start_engine


def setUpModule():
    start_engine()
    ReleaseTest.engine.check(ROOT / "environment/release.sh", OUT, "cpu", "image", timeout=3600, KILN_BUILD=str(BUILD))
    ReleaseTest.engine.podman("rmi", "--all", "--force")


class ImageTest(ReleaseTest):
    def test_it_is_loaded_and_runs(self):
        file = next(OUT.glob("kiln-*-cpu.oci.tar"))
        with tarfile.open(file) as archive:
            self.assertEqual(json.load(archive.extractfile("oci-layout"))["imageLayoutVersion"], "1.0.0")
        image = self.engine.check("podman", "load", "--quiet", "--input", file).split()[-1]
        self.assertLess(self.engine.inspect(image)["Size"], 650e6)
        versions = self.engine.podman("run", "--rm", "--network", "none", *LIMITS, image, "--version")
        self.assertEqual(versions.returncode, 0, versions.stderr)
        bill = json.loads(next(OUT.glob("kiln-*-image.cdx.json")).read_text())
        packages = {component["name"] for component in bill["components"]}
        self.assertIn("libc6", packages)
        files = self.engine.podman("run", "--rm", "--network", "none", "--entrypoint", "find", *LIMITS, image, "/", "-xdev")
        self.assertIn("/opt/kiln/bin/kiln", files.stdout)
        self.assert_brings_no_heic(files.stdout, *packages)
        sums = subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=OUT)
        self.assertEqual(sums.returncode, 0)


if __name__ == "__main__":
    require_night()
    main()
