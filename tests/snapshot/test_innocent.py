"""Fifty variables that only look like secrets: at most two may be withheld."""

from __future__ import annotations

import py_compile
from pathlib import Path

import pytest

from reprobuild_portable import secrets
from reprobuild_portable.secrets.search import find
from tests.snapshot.innocents import LINES, VARIABLES

RUNTIME = Path(__file__).parent.parent.parent / "reprobuild_runtime"
INNOCENT = {
    "TOKENIZERS_PARALLELISM": "false", "MAX_NEW_TOKENS": "4096", "TOKENS_PER_BATCH": "524288", "KEYBOARD": "us",
    "NUM_TOKENS": "1000000000", "TOKENIZER": "/data/llama/tokenizer.model", "TOKENIZER_TYPE": "GPT2BPETokenizer",
    "HF_TOKEN_PATH": "/home/ada/.cache/huggingface/token", "PWD": "/home/ada/secret-project", "OLDPWD": "/home/ada",
    "SSH_AUTH_SOCK": "/tmp/ssh-XXXXab12/agent.4711", "SSL_CERT_FILE": "/etc/ssl/cert.pem", "XDG_SESSION_ID": "c17",
    "LSF_EAUTH_AUX_PASS": "yes", "N_PASSES": "3", "NUM_PASS": "2", "MASTER_ADDR": "key-node-01", "BYPASS": "1",
    "COMPASS_HOME": "/opt/compass", "MY_PUBLIC_KEY": "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAA", "SORT_KEY": "loss",
    "PARTITION_KEY": "gpu", "CACHE_KEY": "v3-linux-py311", "SECRET_VERSION": "latest", "PASSWORD_STORE_DIR": "/x/p",
    "GIT_COMMIT": "9e107d9d372bb6826bd81d3542a419d6e277d6b9", "LS_COLORS": "rs=0:di=01;34:ln=01;36:mh=00:pi=40;33",
    "WANDB_RUN_ID": "3k9xq2mz", "RUN_NAME": "sk-learn-baseline-2024-rerun", "SLURM_JOB_ID": "4711",
    "CUBLAS_WORKSPACE_CONFIG": ":4096:8", "NVIDIA_REQUIRE_CUDA": "cuda>=12.4 brand=tesla,driver>=470",
    "NCCL_UNIQUE": "0x7f3a9c0012ab", "TORCH_CUDA_ARCH_LIST": "8.0;9.0+PTX",
    "UUID": "2f1e4d8c-97b3-4c1e-9a51-0c7d8e6f5a43",
    "DATA_SHA": "sha256:b94d27b9934d3e08a52e52d7da7dabfac484efe37a5380ee9088f7ace2efcde9", "EPOCH_SEED": "1234567890",
    "EXPERIMENT": "ablation_hf_abcdef", "DATABASE": "postgres://localhost:5432/runs",
    "BASE_URL": "https://example.org:8443/v1",
    "TEMPLATE_URL": "https://{user}:{password}@example.org/x", "XLA_FLAGS": "--xla_gpu_deterministic_ops=true",
    "_ModuleTable001_": "X01vZHVsZVRhYmxlXyA9IHsKTVR2ZXJzaW9uID0g", "LMOD_PKG": "/opt/lmod/8.7",
    "BUILD_ID": "a1b2c3d4e5f6",
    "LESSKEY": "/home/ada/.less", "XKEYSYMDB": "/usr/share/X11/XKeysymDB", "MONKEY_PATCH": "1", "TURKEY": "bird",
    "SIGNAL": "SIGUSR1@90",
}  # fmt: skip


def test_at_most_two_of_fifty_innocent_variables_are_withheld() -> None:
    assert len(INNOCENT) == 50
    withheld = {
        name: rule for name, value in INNOCENT.items() if (rule := secrets.secret_variable(name, value))
    }
    assert len(withheld) <= 2, withheld


def test_at_most_four_of_two_hundred_innocents_are_withheld() -> None:
    assert len(VARIABLES) + len(LINES) >= 200
    withheld = [
        (name, rule) for name, value in VARIABLES.items() if (rule := secrets.secret_variable(name, value))
    ]
    withheld += [(line, rule) for line in LINES for _, rule in secrets.find(line.encode())]
    assert len(withheld) <= 4, withheld


def test_at_most_two_of_them_are_changed_for_the_eyes() -> None:
    """What would be cut is never baked, so an innocent value must stay whole."""
    changed = [name for name, value in VARIABLES.items() if secrets.redact(value) != value]
    assert len(changed) <= 2, changed


@pytest.mark.parametrize(
    "path", sorted(RUNTIME.rglob("*.py")), ids=lambda path: str(path.relative_to(RUNTIME))
)
def test_compiled_code_of_this_program(path: Path, tmp_path: Path) -> None:
    """Each image has it; between two strings of code stand control characters."""
    py_compile.compile(str(path), cfile=str(tmp_path / "x.pyc"), doraise=True)
    assert find((tmp_path / "x.pyc").read_bytes()) == []
