"""The manual page kiln(1), in roff."""
import re

STATUSES = {
    "0": "Success.",
    "1": "Something is wrong with a value or an input, or a check found something:",
    "2": "The command line cannot be read:",
    "3": "A failure while running:",
    "70": "A bug in kiln: InternalError (1000).",
    "129, 130, 138, 143": "Stopped by SIGHUP, SIGINT, SIGUSR1 or SIGTERM.",
}
VARIABLES = {
    "XDG_CACHE_HOME, HOME": "Folder of caches: $XDG_CACHE_HOME/kiln, else $HOME/.cache/kiln.",
    "TMPDIR": "Folder for temporary files.",
    "NO_COLOR, TERM": "If NO_COLOR is set or TERM is dumb, no line is written over another.",
    "LC_ALL, LC_CTYPE, LANG": "Whether the terminal shows UTF-8.",
    "http_proxy, https_proxy, ALL_PROXY, no_proxy": "Proxies of downloads and MLflow.",
    "CURL_CA_BUNDLE, SSL_CERT_FILE, SSL_CERT_DIR": "Certificates to trust.",
    "MLFLOW_TRACKING_URI, MLFLOW_TRACKING_TOKEN, MLFLOW_EXPERIMENT_NAME, MLFLOW_RUN_ID":
        "The MLflow server to which training reports, its login, and where there.",
    "GOMP_SPINCOUNT, OMP_WAIT_POLICY": "If set, they decide how compute threads wait.",
    "NCCL_DEBUG, NCCL_DEBUG_FILE": "If set, they decide what NCCL logs, and where.",
    "RANK, WORLD_SIZE, JOB_COMPLETION_INDEX, SLURM_ARRAY_TASK_ID": "The part of `--part auto`.",
    "KILN_FUSED_NORM": "If 1, training on GPUs computes BatchNorm and what follows it in Kiln's own kernels.",
    "KILN_SHARE_GPU": "If set, ranks may share a GPU.",
    "KILN_PASS_ON": "More variables for the ranks on other hosts: NAME,NAME.",
    "KILN_HOSTS_KEY": "File of the ssh key of a SageMaker job's hosts.",
}
FILES = {
    "logs/report.html, logs/metrics.jsonl": "The report of a run in --log-path, and its record.",
    "logs/module_statistics/error_info.json": "Why a run failed.",
    "~/.cache/kiln": "Downloaded weights, and lists of what large datasets contain.",
}
EXAMPLES = {
    "kiln train --data-path photos --model-name resnet18 --trained-model-path model":
        "Train on a folder that has a folder of photos for each class.",
    "kiln score --trained-model-path model --data-path photo.jpg": "Classify a photo.",
    "kiln launch --ranks 2 -- train --config job.yaml": "Train in two processes.",
}
ABOUT = ("Kiln trains image classifiers from folders of images, then classifies images. An option is --name value or "
         "--name=value; in names, _ and - are the same.")
SIGNS = {"\\": "\\e", "-": "\\-", "'": "\\(aq", '"': "\\(dq", "^": "\\(ha", "~": "\\(ti"}


def line(text):
    """A line of text. What is between two backticks becomes bold."""
    out = "".join(SIGNS.get(letter, letter) for letter in text)
    out = re.sub("`(.*?)`", r"\\fB\1\\fR", out)
    return ("\\&" if out.startswith(".") else "") + out + "\n"


def section(title, entries):
    return f".SH {title}\n" + "".join(f".TP\n{line(f'`{label}`')}{line(about)}" for label, about in entries.items())


def option_entry(option):
    about = option["help"]
    if option["required"]:
        about += f" Required, or `--{option['instead']}`." if option["instead"] else " Required."
    if option["default"]:
        about += f" Default: {option['default']}."
    if option["range"] and option["kind"] != "choice":
        about += f" Range: {option['range']}."
    if option["unit"]:
        about += f" Unit: {option['unit']}."
    return ".TP\n" + line(f"`--{option['name']}` {option['value_name']}".rstrip()) + line(about)


def command_section(command):
    text = ".SS " + line(f"kiln {command['name']}") + line(command["summary"])
    text += ".PP\n" + line(f"`kiln {command['name']}` {command['usage']}")
    for group in dict.fromkeys(option["group"] for option in command["options"]):
        text += ".PP\n.I " + line(group)
        text += "".join(option_entry(option) for option in command["options"] if option["group"] == group)
    return text


def man_page(described, errors):
    """`errors`: the text of docs/errors.md, whose table names the errors that end with each exit status."""
    rows = re.findall(r"^\| (\d+) \| `(\w+)` \| (\d+) \|", errors, re.M)
    names = {status: ", ".join(f"{name} ({number})" for number, name, ends in rows if ends == status) for status in STATUSES}
    statuses = {status: f"{about} {names[status]}".rstrip() for status, about in STATUSES.items()}
    return (f'.TH KILN 1 "" "kiln {described["version"]}" "User Commands"\n.SH NAME\nkiln \\- train image classifiers\n'
            ".SH SYNOPSIS\n" + line("`kiln` COMMAND [options]") + ".SH DESCRIPTION\n" + line(ABOUT) + ".SH COMMANDS\n" +
            "".join(map(command_section, described["commands"])) + section("EXIT STATUS", statuses) +
            section("ENVIRONMENT", VARIABLES) + section("FILES", FILES) + section("EXAMPLES", EXAMPLES))
