"""Rules for Kubernetes manifests of MPI jobs that no offline validator checks, and the pods in them."""

MPIJOB_SPEC = {"slotsPerWorker", "runLauncherAsWorker", "runPolicy", "mpiReplicaSpecs", "sshAuthMountPath",
               "launcherCreationPolicy", "mpiImplementation"}
RUN_POLICY = {"cleanPodPolicy", "ttlSecondsAfterFinished", "activeDeadlineSeconds", "backoffLimit", "schedulingPolicy",
              "suspend", "managedBy"}
REPLICA_SPEC = {"replicas", "template", "restartPolicy"}


def mpijob_faults(job):
    """What the MPI operator would reject or silently drop."""
    spec = job["spec"]
    replicas = spec.get("mpiReplicaSpecs", {})
    found = [f"unknown key spec.{key}" for key in sorted(set(spec) - MPIJOB_SPEC)]
    found += [f"unknown key spec.runPolicy.{key}" for key in sorted(set(spec.get("runPolicy", {})) - RUN_POLICY)]
    if (job.get("apiVersion"), job.get("kind")) != ("kubeflow.org/v2beta1", "MPIJob"):
        found.append("it is no MPIJob of kubeflow.org/v2beta1")
    if set(replicas) - {"Launcher", "Worker"}:
        found.append("there is a replica that is neither Launcher nor Worker")
    if replicas.get("Launcher", {}).get("replicas") != 1:
        found.append("Launcher must have 1 replica")
    workers = replicas.get("Worker", {}).get("replicas", 0)
    if workers < 1:
        found.append("Worker must have a replica at least")
    if len(f"{job['metadata']['name']}-worker-{workers - 1}") > 63:
        found.append("the name is too long for the workers' host names")
    for role, replica in replicas.items():
        found += [f"unknown key {role}.{key}" for key in sorted(set(replica) - REPLICA_SPEC)]
        if replica.get("restartPolicy") not in ("Never", "OnFailure"):
            found.append(f"{role} must have the restartPolicy Never or OnFailure")
        if "restartPolicy" in replica["template"]["spec"]:
            found.append(f"the pods of {role} have a restartPolicy, which is overridden")
    if spec.get("runPolicy", {}).get("cleanPodPolicy", "None") not in ("None", "Running", "All"):
        found.append("cleanPodPolicy must be None, Running or All")
    if spec.get("mpiImplementation", "OpenMPI") not in ("OpenMPI", "Intel", "MPICH"):
        found.append("mpiImplementation must be OpenMPI, Intel or MPICH")
    numbers = {**spec.get("runPolicy", {}), "slotsPerWorker": spec.get("slotsPerWorker")}
    found += [f"{name} is negative" for name, value in numbers.items() if isinstance(value, int) and value < 0]
    return found


def pods(manifest):
    """Every pod template in the manifest, as a Pod."""
    if isinstance(manifest, list):
        return [pod for entry in manifest for pod in pods(entry)]
    if not isinstance(manifest, dict):
        return []
    found = [pod for value in manifest.values() for pod in pods(value)]
    if "containers" in manifest.get("spec", {}):
        found.append({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod", **manifest.get("metadata", {})},
                      "spec": manifest["spec"]})
    return found


def mount_faults(pod):
    """Mounts of volumes that are not defined in the pod."""
    names = {volume["name"] for volume in pod["spec"].get("volumes", [])}
    return [f"{container['name']} mounts {mount['name']}, which is no volume of its pod"
            for container in pod["spec"]["containers"] for mount in container.get("volumeMounts", [])
            if mount["name"] not in names]
