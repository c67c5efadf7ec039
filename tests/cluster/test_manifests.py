"""The files for containers in docs/cluster: no more rights than bubblewrap needs, and options that the commands have."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from distributed.cli.dask_scheduler import main as dask_scheduler
from distributed.cli.dask_worker import main as dask_worker

from autograder.course.paths import ROOT

FOLDER = ROOT / "docs" / "cluster"
DOCKERFILE = FOLDER / "Dockerfile"
KUBERNETES = [one for one in yaml.safe_load_all((FOLDER / "kubernetes.yaml").read_text("utf-8")) if one]
COMPOSE = yaml.safe_load((FOLDER / "compose.yaml").read_text("utf-8"))
DASK = {"scheduler": dask_scheduler, "worker": dask_worker}


def steps(text: str) -> Iterator[tuple[str, str]]:
    """Yield each instruction of a Dockerfile, such as RUN, with its words."""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    for line in re.sub(r"\s*\\\n\s*", " ", "\n".join(lines)).splitlines():
        instruction, _, words = line.partition(" ")
        yield instruction, words.strip()


def pods() -> dict[str, dict]:
    """Return the specification of each kind of pod."""
    return {
        one["metadata"]["name"]: one["spec"]["template"]["spec"] for one in KUBERNETES if one["kind"] == "Deployment"
    }


def test_every_pod_runs_without_rights():
    """An ordinary user without capabilities, a read-only file system except /tmp, no Kubernetes token, limited memory."""
    assert {"scheduler", "worker"} == set(pods())
    for pod in pods().values():
        assert pod["automountServiceAccountToken"] is False
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert not {"hostNetwork", "hostPID", "hostIPC"} & pod.keys()
        [container] = pod["containers"]
        rights = container["securityContext"]
        assert (False, {"drop": ["ALL"]}, True) == (
            rights["allowPrivilegeEscalation"], rights["capabilities"], rights["readOnlyRootFilesystem"],
        )  # fmt: skip
        assert "memory" in container["resources"]["limits"]
        assert {"/certs": True, "/tmp": False} == {
            mount["mountPath"]: mount.get("readOnly", False) for mount in container["volumeMounts"]
        }


def test_only_workers_lack_the_usual_filters():
    """The filters are relaxed for namespaces only where submissions run, and only with a user namespace for the pod."""
    scheduler, worker = pods()["scheduler"], pods()["worker"]
    assert "RuntimeDefault" == scheduler["securityContext"]["seccompProfile"]["type"]
    assert "procMount" not in scheduler["containers"][0]["securityContext"]
    assert (False, "Unmasked") == (worker["hostUsers"], worker["containers"][0]["securityContext"]["procMount"])
    lifted = {name for name, service in COMPOSE["services"].items() if "security_opt" in service}
    assert {"worker1", "worker2"} == lifted
    assert all(["ALL"] == COMPOSE["services"][name]["cap_drop"] for name in ("scheduler", "worker1", "worker2"))
    assert not any("privileged" in service or "cap_add" in service for service in COMPOSE["services"].values())


def test_nobody_but_the_cluster_reaches_its_ports():
    """The policy holds for both kinds of pods and names no other source; compose publishes no port."""
    [policy] = [one["spec"] for one in KUBERNETES if one["kind"] == "NetworkPolicy"]
    [selected] = policy["podSelector"]["matchExpressions"]
    assert {"scheduler", "worker"} == set(selected["values"])
    assert [{"podSelector": policy["podSelector"]}] == [source for rule in policy["ingress"] for source in rule["from"]]
    assert not any("ports" in service for service in COMPOSE["services"].values())


def commands() -> dict[str, list[str]]:
    """Return the words of every dask command in the files, by its position."""
    found = {
        f"kubernetes {name}": pod["containers"][0]["command"] + pod["containers"][0]["args"]
        for name, pod in pods().items()
    }
    found |= {
        f"compose {name}": service["command"].split()
        for name, service in COMPOSE["services"].items()
        if "command" in service
    }
    script = re.findall(r"^(?:srun )?(dask .*?) &$", (FOLDER / "slurm.sh").read_text("utf-8"), re.M)
    return found | {f"slurm {number}": line.split() for number, line in enumerate(script)}


@pytest.mark.parametrize("where", commands())
def test_every_option_is_one_of_dask(where):
    """Each word that begins with `--` is an option of that command of the installed Dask."""
    dask, kind, *words = commands()[where]
    assert "dask" == dask
    known = {option for parameter in DASK[kind].params for option in (*parameter.opts, *parameter.secondary_opts)}
    assert set() == {word for word in words if word.startswith("--")} - known


def test_the_image_holds_no_file_that_only_this_machine_has():
    """Each folder is copied by its name, so that certificates and a class in the clone's top folder stay outside."""
    copied = [
        words.split()[:-1] for instruction, words in steps(DOCKERFILE.read_text("utf-8")) if instruction == "COPY"
    ]
    root = Path(__file__).resolve().parents[2]
    names = [name for one in copied for name in one]
    assert "." not in names
    assert [] == [name for name in names if not (root / name).exists()]
    assert ["autograder", "doctor"] == json.loads(dict(steps(DOCKERFILE.read_text("utf-8")))["CMD"])
