"""Each shape that a line of a real freeze was seen in, in a made-up line, and where the lock will look for it.

A row is the line, the captured system packages, and the decision written out: where, what is asked, why, and the system
package that stands in where no index has it. Reviewed by hand; a test compares.
"""

# ruff: noqa: E501 (a row of a table stays on one line)
# fmt: off

from __future__ import annotations

H = "0123456789abcdef" * 4
C = "0123456789abcdef0123456789abcdef01234567"
TORCH = "https://download.pytorch.org/whl"
UNHASHED = "the freeze tells no hash of it"

DECISIONS: list[tuple[str, dict[str, str], tuple[str, str, str, str]]] = [
    # plain pins
    ("six==1.16.0", {}, ("index", "", "", "")),
    ("six==1.16.0", {"python3-six": "1.16.0-3ubuntu1"}, ("index", "", "", "python3-six")),
    ("six==1.16.0", {"python3-six": "1.15.0-2"}, ("index", "", "", "")),
    ("gyp==0.1", {"gyp": "0.1+20220404git9ecf45e-2"}, ("index", "", "", "gyp")),
    ("meson==1.0.1", {"meson": "1.0.1-5"}, ("index", "", "", "meson")),
    ("six==1.16.0", {"python3-six": "1.16.0-4", "six": "1.16.0-1"}, ("index", "", "", "python3-six")),
    ("lazr.tool==0.14.6", {}, ("index", "", "", "")),
    ("tool==1!7.4.1", {}, ("index", "", "", "")),
    ("tool==2.0.0.dev1", {}, ("index", "", "", "")),
    ("tool==2.0.dev20240101", {}, ("index", "", "", "")),
    ("tool==0.6.24dev-r0", {}, ("index", "", "", "")),
    ("tool===0.5", {}, ("index", "", "", "")),
    ("tool[extra]==1.0", {}, ("index", "", "", "")),
    ("tool==2.8.2+zzzcolab20220719082949", {}, ("index", "", "", "")),
    ("regex", {}, ("nothing", "", "the freeze tells no version", "")),
    ("regex>=2.0", {}, ("nothing", "", "the freeze tells no version", "")),
    # labels, by rule
    ("torch==2.3.1+cpu", {}, ("rule", f"{TORCH}/cpu", "", "")),
    ("torch==2.13.0+cu130", {}, ("rule", f"{TORCH}/cu130", "", "")),
    ("torchvision==0.26.0+cu128", {}, ("rule", f"{TORCH}/cu128", "", "")),
    ("torch==1.7.1+cu92", {}, ("rule", f"{TORCH}/cu92", "", "")),
    ("torch==2.0.1+cu117.with.pypi.cudnn", {}, ("rule", f"{TORCH}/cu117", "", "")),
    ("torch==2.4.0+rocm6.1", {}, ("rule", f"{TORCH}/rocm6.1", "", "")),
    ("torch==2.0.1+rocm5.4.2", {}, ("rule", f"{TORCH}/rocm5.4.2", "", "")),
    ("torch==2.6.0+xpu", {}, ("rule", f"{TORCH}/xpu", "", "")),
    ("torch==2.6.0.dev20241112+cu126", {}, ("rule", f"{TORCH}/nightly/cu126", "", "")),
    ("torch==2.6.0.dev20241112+rocm6.2", {}, ("rule", f"{TORCH}/nightly/rocm6.2", "", "")),
    ("torch==2.6.0+rocm6.4.1.git1ded221d", {}, ("rule", "https://repo.radeon.com/rocm/manylinux/rocm-rel-6.4.1/", "", "")),
    ("torch-scatter==2.1.2+pt24cu121", {}, ("rule", "https://data.pyg.org/whl/torch-2.4.0+cu121.html", "", "")),
    ("torch-sparse==0.6.18+pt210cpu", {}, ("rule", "https://data.pyg.org/whl/torch-2.10.0+cpu.html", "", "")),
    ("jaxlib==0.4.23+cuda12.cudnn89", {}, ("rule", "https://storage.googleapis.com/jax-releases/jax_cuda_releases.html", "", "")),
    ("libtpu-nightly==0.1.dev20231213+default", {}, ("rule", "https://storage.googleapis.com/jax-releases/libtpu_releases.html", "", "")),
    ("libtpu_nightly==0.1.dev20241010+nightly.cleanup", {}, ("rule", "https://storage.googleapis.com/jax-releases/libtpu_releases.html", "", "")),
    ("cuml_cu12==26.2.0", {}, ("rule", "https://pypi.nvidia.com", "", "")),
    ("tensorrt==8.5.2.2", {}, ("rule", "https://pypi.nvidia.com", "", "")),
    # labels that no rule is for
    ("tool==1.0+cudnn", {}, ("index", "", "", "")),
    ("tool==1.0+cu", {}, ("index", "", "", "")),
    ("tool==1.0+cpuish", {}, ("index", "", "", "")),
    ("tool==1.0+cu121torch2.4", {}, ("index", "", "", "")),
    ("torchvision==0.12.0a0+9b5a3fe", {}, ("index", "", "built from commit 9b5a3fe of its source", "")),
    ("torch==1.11.0a0+gitbc2c6ed", {}, ("index", "", "built from commit bc2c6ed of its source", "")),
    # vendors
    ("torch==2.6.0a0+ecf3bae40a.nv25.01", {}, ("vendor", "nvcr.io/nvidia/pytorch:25.01-py3", "NVIDIA's own build, which is in its image", "")),
    ("torch==2.6.0a0+ecf3bae40a.nv25.1", {}, ("vendor", "nvcr.io/nvidia/pytorch:25.01-py3", "NVIDIA's own build, which is in its image", "")),
    ("torch==2.6.0a0+ecf3bae40a.nv25.1.internal", {}, ("vendor", "nvcr.io/nvidia/pytorch:25.01-py3", "NVIDIA's own build, which is in its image", "")),
    ("tensorflow==2.17.0+nv25.2", {}, ("vendor", "nvcr.io/nvidia/tensorflow:25.02-tf2-py3", "NVIDIA's own build, which is in its image", "")),
    ("torch==2.0.0+nv23.5", {}, ("vendor", "", "NVIDIA's own build for Jetson, of which only its page of wheels has files", "")),
    # Debian's and Ubuntu's own distributions
    ("python-apt==2.7.7+ubuntu5.2", {}, ("system", "python3-apt", "", "")),
    ("python-apt==2.7.7+ubuntu5.2", {"python3-apt": "2.7.7ubuntu5.2"}, ("system", "python3-apt", "2.7.7ubuntu5.2", "")),
    ("python-apt==0.0.0", {}, ("system", "python3-apt", "", "")),
    ("ubuntu-advantage-tools==8001", {}, ("system", "ubuntu-advantage-tools", "", "")),
    ("unattended-upgrades==0.1", {}, ("system", "unattended-upgrades", "", "")),
    ("ufw==0.31.1-1", {}, ("system", "ufw", "", "")),
    ("distro-info===0.23ubuntu1", {}, ("system", "python3-distro-info", "", "")),
    ("python-debian==0.1.36+ubuntu1.1", {}, ("system", "python3-debian", "", "")),
    ("python-debian==0.1.49", {}, ("index", "", "", "")),
    ("tool==1.1build1", {}, ("system", "python3-tool", "", "")),
    ("virtualenv==20.13.0+ds", {}, ("system", "python3-virtualenv", "", "")),
    ("tool==1.0+build5", {}, ("index", "", "", "")),
    ("tool==1.0+dsx", {}, ("index", "", "", "")),
    ("PyGObject==3.42.1", {"python3-gi": "3.42.1-0ubuntu1"}, ("system", "python3-gi", "3.42.1-0ubuntu1", "")),
    ("PyGObject==3.48.2", {"python3-gi": "3.42.1-0ubuntu1"}, ("index", "", "", "")),
    ("PyGObject==3.42.1", {}, ("index", "", "", "")),
    ("dbus-python==1.2.18", {"python3-dbus": "1.2.18-3build1"}, ("system", "python3-dbus", "1.2.18-3build1", "")),
    ("Brlapi==0.8.3", {"python3-brlapi": "6.4-4ubuntu3"}, ("system", "python3-brlapi", "6.4-4ubuntu3", "")),
    ("python-magic==0.4.26", {"python3-magic": "2:0.4.26-3"}, ("index", "", "", "python3-magic")),
    ("netifaces==0.11.0", {"python3-netifaces": "0.11.0-1build2"}, ("index", "", "", "python3-netifaces")),
    ("lazr.tool==0.14.4", {"python3-lazr.tool": "0.14.4-1"}, ("index", "", "", "python3-lazr.tool")),
    ("python-tool==1.0", {"python3-python-tool": "1.0-1"}, ("index", "", "", "python3-python-tool")),
    # what was never there
    ("-umpy==1.26.4", {}, ("dropped", "", "an interrupted installation left this directory behind", "")),
    ("~umpy==1.26.4", {}, ("dropped", "", "an interrupted installation left this directory behind", "")),
    ("pkg-resources==0.0.0", {}, ("dropped", "", "pip of Debian and Ubuntu lists it in virtual environments; there is no such distribution", "")),
    ("pkg_resources==0.0.0", {}, ("dropped", "", "pip of Debian and Ubuntu lists it in virtual environments; there is no such distribution", "")),
    # files
    (f"tool @ https://x.example/tool-3.5.0-py3-none-any.whl#sha256={H}", {}, ("address", "https://x.example/tool-3.5.0-py3-none-any.whl", "", "")),
    ("tool @ https://x.example/cu113/tool-1.12.1%2Bcu113-cp37-cp37m-linux_x86_64.whl", {}, ("address", "https://x.example/cu113/tool-1.12.1%2Bcu113-cp37-cp37m-linux_x86_64.whl", UNHASHED, "")),
    (f"tool @ https://git.example/o/tool/archive/refs/tags/v1.tar.gz#sha256={H}&subdirectory=py", {}, ("address", "https://git.example/o/tool/archive/refs/tags/v1.tar.gz", "", "")),
    ("tool @ https://git.example/o/tool/archive/master.zip", {}, ("address", "https://git.example/o/tool/archive/master.zip", UNHASHED, "")),
    ("tool @ https://api.git.example/o/tool/tarball/v1", {}, ("nothing", "https://api.git.example/o/tool/tarball/v1", "its name does not state what kind of file it is", "")),
    (f"tool @ file:///wheels/tool-0.1-py3-none-any.whl#sha256={H}", {}, ("local file", "/wheels/tool-0.1-py3-none-any.whl", "", "")),
    ("tool @ file:///tmp/tool-2.8.3+cu128-cp311-cp311-linux_x86_64.whl", {}, ("local file", "/tmp/tool-2.8.3+cu128-cp311-cp311-linux_x86_64.whl", UNHASHED, "")),
    ("tool @ file:///dist/tool-1.0.0.tar.gz", {}, ("local file", "/dist/tool-1.0.0.tar.gz", UNHASHED, "")),
    ("tool @ file:///opt/tool/tool", {}, ("folder", "/opt/tool/tool", "", "")),
    # repositories
    (f"tool @ git+https://git.example/o/tool@{C}", {}, ("source", f"git+https://git.example/o/tool@{C}", "", "")),
    (f"-e git+https://git.example/o/tools.git@{C}#egg=tool&subdirectory=py", {}, ("source", f"git+https://git.example/o/tools.git@{C}", "", "")),
    ("-e /home/ada/tool", {}, ("source", "/home/ada/tool", "", "")),
    # conda
    ("tool @ file:///croot/tool_1676588132104/work", {}, ("conda", "", "", "")),
    ("tool @ file:///build/artifacts/tool_1609355006118/work/py-dist/tool-0.7.0-py2.py3-none-any.whl", {}, ("conda", "0.7.0", "", "")),
]
