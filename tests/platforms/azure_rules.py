"""Faults that Azure ML's SDK accepts but its service or a job does not."""
import keyword
import re

TOP_KEYS = {"$schema", "type", "name", "version", "display_name", "description", "tags", "is_deterministic", "inputs",
            "outputs", "command", "environment", "distribution", "resources"}
RESOURCE_KEYS = {"instance_count", "shm_size", "docker_args", "properties"}
RESERVED = set(keyword.kwlist) | {"name", "type", "version", "command", "environment", "distribution", "resources", "compute",
                                  "limits", "parent"}
REFERENCE = re.compile(r"\$\{\{(inputs|outputs)\.(\w+)\}\}")
OPTIONAL_PART = re.compile(r"\$\[\[(.*?)\]\]", re.S)


def faults(component):
    """The faults of a command component parsed from YAML, one sentence each."""
    inputs, outputs = component.get("inputs", {}), component.get("outputs", {})
    found = [f"unknown key {key}" for key in sorted(set(component) - TOP_KEYS)]
    found += [f"unknown key resources.{key}" for key in sorted(set(component.get("resources", {})) - RESOURCE_KEYS)]
    found += [f"{name} is a reserved name" for name in sorted((set(inputs) | set(outputs)) & RESERVED)]
    for name, value in inputs.items():
        found += default_faults(name, value)
    found += command_faults(component["command"], inputs, outputs)
    environment = component.get("environment", {})
    if isinstance(environment, dict) and {"image", "build"} <= set(environment):
        found.append("environment has an image and a build")
    distribution = component.get("distribution", {})
    if distribution.get("type") == "mpi" and "process_count_per_instance" not in distribution:
        found.append("process_count_per_instance is missing")
    return found


def default_faults(name, value):
    if "default" not in value:
        return []
    default, found = value["default"], []
    if value["type"] == "integer" and default != int(default):
        found.append(f"{name} has a fractional default")
    if value["type"] in ("integer", "number") and not value.get("min", default) <= default <= value.get("max", default):
        found.append(f"the default of {name} is out of its range")
    if default not in value.get("enum", [default]):
        found.append(f"the default of {name} is none of its choices")
    return found


def command_faults(command, inputs, outputs):
    optional_parts = "".join(OPTIONAL_PART.findall(command))
    optional = {name for _, name in REFERENCE.findall(optional_parts)}
    required = {name for _, name in REFERENCE.findall(OPTIONAL_PART.sub("", command))}
    found = ["the command has a backslash at the end of a line"] if re.search(r"\\\s*(\n|$)", command) else []
    for name in list(inputs) + list(outputs):
        if name not in optional | required:
            found.append(f"the command does not use {name}")
        may_be_left_out = inputs.get(name, {}).get("optional", False)
        if may_be_left_out and name in required:
            found.append(f"{name} is optional, but outside of $[[ ]]")
        if not may_be_left_out and name in optional:
            found.append(f"{name} is required, but inside of $[[ ]]")
    return found
