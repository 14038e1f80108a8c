"""The check of a machine's engines and their GPUs. Pure.

Facts in, findings out.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from reprobuild.doctor.fixes import describe_installation, with_sudo
from reprobuild.doctor.model import DoctorFinding, EngineFound, Host, State
from reprobuild.engines.gpu import AMD, NVIDIA

_BY_CDI = ("builtin", "podman")
_BY_TOOLKIT = (*_BY_CDI, "docker")


def judge_engines(host: Host) -> Iterator[DoctorFinding]:
    """Yield a finding for each engine, or their absence.

    An engine that does not answer is a problem only if no other does.
    """
    for engine in host.engines:
        if engine.version:
            yield DoctorFinding(name=engine.name, state="ok", seen=f"{engine.version} answers")
        elif engine.name == "builtin":
            yield _builtin_finding(engine, host)
        elif engine.program or (engine.name == "docker" and host.docker in ("there", "refused", "elsewhere")):
            yield _unavailable_finding(engine, host)
    if not host.available_engines:
        yield DoctorFinding(
            name="engine", state="problem", seen="no engine answers (builtin, docker, podman, apptainer)",
            meaning="images can be made here, and neither checked nor run", fix=_engine_advice(host),
        )  # fmt: skip
    elif host.has_engine("podman") and not host.root:
        yield from _judge_subordinate_ids(host)


def _engine_advice(host: Host) -> str:
    """Return the advice on the engine to install.

    It is Apptainer on sites with modules, else podman, because podman needs neither daemon nor root.
    """
    if any(engine.program for engine in host.engines):
        return "mend what is above, or get another: " + describe_installation("podman", host)
    return describe_installation("apptainer" if host.modules or host.scheduler else "podman", host)


def _builtin_finding(engine: EngineFound, host: Host) -> DoctorFinding:
    state: State = "warning" if host.available_engines else "problem"
    return DoctorFinding(
        name="builtin", state=state, seen=engine.complaint,
        meaning="reprobuild's own engine cannot run images",
        fix="allow user namespaces, or take another engine; in a container, start that with "
        "`--security-opt seccomp=unconfined --security-opt systempaths=unconfined`",
    )  # fmt: skip


def _unavailable_finding(engine: EngineFound, host: Host) -> DoctorFinding:
    state: State = "warning" if host.available_engines else "problem"
    if engine.name != "docker":
        return DoctorFinding(
            name=engine.name, state=state, seen=f"it cannot be used: {engine.complaint or 'it does not answer'}",
            meaning="it cannot run images", fix=_podman_advice(host) if engine.name == "podman" else
            f"{describe_installation('apptainer', host)} (Apptainer 1.1, or SingularityCE 3.10, or newer)",
        )  # fmt: skip
    if host.docker == "elsewhere":
        return DoctorFinding(
            name="docker", state=state, seen="the daemon that DOCKER_HOST names does not answer",
            meaning="it cannot run images", fix="mend DOCKER_HOST, or unset it",
        )  # fmt: skip
    if host.docker == "refused":
        return DoctorFinding(
            name="docker", state=state, seen=f"its socket is not {host.user or 'yours'}'s to use",
            meaning="the daemon runs, and this user may not ask it",
            fix=f"`{with_sudo(f'usermod -aG docker {shlex.quote(host.user)}', host)}`, then log in again; "
            "who is in that group is as "
            "good as root, so many sites say no",
        )  # fmt: skip
    if not host.systemd and "dockerd" not in host.programs:
        return DoctorFinding(
            name="docker", state=state, seen="its program is there, and there is no dockerd",
            meaning="it cannot run images", fix=describe_installation("podman", host),
        )  # fmt: skip
    begin = _choose_service_command(host, "enable --now", "start") or "dockerd"
    return DoctorFinding(
        name="docker", state=state, seen="its program is there, and no daemon answers",
        meaning="it cannot run images", fix=f"`{with_sudo(begin, host)}`",
    )  # fmt: skip


def _choose_service_command(host: Host, systemd: str, script: str) -> str:
    """Return the command that starts Docker by the machine's service manager, or an empty text."""
    if host.systemd:
        return f"systemctl {systemd} docker"
    return f"service docker {script}" if "service" in host.programs else ""


def _podman_advice(host: Host) -> str:
    if not host.root and (host.subordinate is False or "newuidmap" not in host.programs):
        return _subordinate_id_advice(host)
    return "`podman info` says more; https://github.com/containers/podman/blob/main/troubleshooting.md has remedies"


def _judge_subordinate_ids(host: Host) -> Iterator[DoctorFinding]:
    """Yield a finding if rootless podman lacks subordinate ids.

    It needs them to unpack images with files of many users.
    """
    state: State = "warning" if len(host.available_engines) > 1 else "problem"
    missing = "newuidmap" not in host.programs
    if not missing and host.subordinate:
        return
    if not missing and host.subordinate is None:
        yield DoctorFinding(
            name="subordinate ids", state="unknown", seen="a directory service gives them (/etc/nsswitch.conf)",
            meaning="whether this user has any, podman alone can tell", fix="`podman unshare cat /proc/self/uid_map`",
        )  # fmt: skip
        return
    yield DoctorFinding(
        name="subordinate ids", state=state,
        seen="there is no newuidmap" if missing else "this user has none in /etc/subuid and /etc/subgid",
        meaning="podman without root cannot unpack images whose files belong to several users",
        fix=_subordinate_id_advice(host),
    )  # fmt: skip


def _subordinate_id_advice(host: Host) -> str:
    steps = [] if "newuidmap" in host.programs else [describe_installation("newuidmap", host)]
    if host.subordinate is False:
        give = f"usermod --add-subuids 100000-165535 --add-subgids 100000-165535 {host.user}"
        steps.append(f"`{with_sudo(give, host)}`, where no other user has these numbers")
    return ", then ".join([*steps, "`podman system migrate`"])


def judge_gpus(host: Host) -> Iterator[DoctorFinding]:
    """Yield findings on GPUs and their use in containers."""
    if not host.vendors:
        yield DoctorFinding(name="gpu", state="ok", seen="none: images run on the processor")
    if AMD in host.vendors:
        yield DoctorFinding(name="gpu", state="ok", seen="AMD's, by /dev/kfd")
    if NVIDIA not in host.vendors:
        return
    if not host.gpus.found:
        yield DoctorFinding(
            name="gpu", state="warning", seen="NVIDIA's, and `nvidia-smi` does not answer",
            meaning="whether the driver fits an image cannot be told, and engines may not find it",
            fix="does `nvidia-smi` answer by hand? Install the driver again, or load its module: "
            f"`{with_sudo('modprobe nvidia', host)}`",
        )  # fmt: skip
        return
    names = ", ".join(dict.fromkeys(gpu.name for gpu in host.gpus.found))
    yield DoctorFinding(
        name="gpu", state="ok", seen=f"{len(host.gpus.found)} x {names}, driver {host.gpus.driver}"
    )
    with_toolkit = [engine.name for engine in host.available_engines if engine.name in _BY_TOOLKIT]
    if with_toolkit and "nvidia-ctk" not in host.programs:
        yield DoctorFinding(
            name="gpu in containers", state="warning", seen="the NVIDIA Container Toolkit is not there",
            meaning=f"{' and '.join(with_toolkit)} cannot give a GPU to a container",
            fix=f"{describe_installation('nvidia-container-toolkit', host)}, then {_gpu_commands(host)}",
        )  # fmt: skip
    elif (by_cdi := [name for name in _BY_CDI if host.has_engine(name)]) and not host.cdi:
        yield DoctorFinding(
            name="gpu in containers", state="warning", seen="no description of the GPUs in /etc/cdi",
            meaning=f"{' and '.join(by_cdi)} cannot give a GPU to a container", fix=_gpu_commands(host),
        )  # fmt: skip


def _gpu_commands(host: Host) -> str:
    """Return the commands that make the GPUs known to engines."""
    commands = []
    if host.has_engine("docker"):
        again = _choose_service_command(host, "restart", "restart")
        commands += ["nvidia-ctk runtime configure --runtime=docker", *([again] if again else [])]
    if any(map(host.has_engine, _BY_CDI)):
        commands.append("nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml")
    return ", ".join(f"`{with_sudo(command, host)}`" for command in commands)
