"""Which captured system packages are the host's and not the environment's. First match decides.

A rule only keeps a package from being asked for; what something else needs is taken all the same.
"""

from __future__ import annotations

from fnmatch import fnmatchcase

_RULES: tuple[tuple[str, str], ...] = (
    ("the kernel is the host's", "linux-image* linux-headers* linux-modules* linux-generic* linux-base"),
    (
        "the kernel is the host's",
        "linux-kbuild* linux-source* dkms initramfs-tools* dracut* kmod kexec-tools",
    ),
    ("firmware and microcode are the host's", "firmware-* linux-firmware* *-microcode iucode-tool fwupd*"),
    ("the GPU driver is the host's", "nvidia-driver* nvidia-dkms-* nvidia-kernel-* nvidia-firmware-*"),
    ("the GPU driver is the host's", "nvidia-utils-* nvidia-compute-utils-* nvidia-headless-* nvidia-open*"),
    ("the GPU driver is the host's", "nvidia-settings nvidia-smi nvidia-persistenced nvidia-modprobe"),
    ("the GPU driver is the host's", "nvidia-fabricmanager-* nvidia-prime nvidia-alternative libnvidia-*"),
    ("the GPU driver is the host's", "xserver-xorg-video-nvidia* cuda-drivers* libcuda1* amdgpu-dkms*"),
    ("container tools are the host's", "nvidia-container-* docker-ce* docker.io containerd* runc podman*"),
    ("container tools are the host's", "apptainer* singularity-ce* enroot* buildah skopeo docker-buildx*"),
    ("an image has no init system", "init systemd systemd-* udev sysvinit-core runit-init upstart"),
    ("an image has no init system", "dbus-user-session libpam-systemd libnss-systemd polkitd policykit-1"),
    ("the scheduler is the cluster's", "slurm* munge libpmix-bin pbs-* torque-* gridengine-* htcondor*"),
    ("the module system is the cluster's", "lmod environment-modules lua-posix-dev tcl-modules"),
    ("the fabric's drivers are the host's", "mlnx-* ofed-* infiniband-diags opensm* lustre-*"),
    ("an image has no boot loader", "grub* shim-signed shim efibootmgr mokutil os-prober lilo syslinux*"),
    ("an image has no disks to look after", "lvm2 mdadm cryptsetup* multipath-tools smartmontools parted"),
    ("snap packages are the host's", "snapd squashfs-tools-ng"),
    ("machine provisioning is the host's", "cloud-init cloud-guest-utils cloud-initramfs-* waagent"),
    ("machine provisioning is the host's", "landscape-* ubuntu-advantage-tools ubuntu-pro-client*"),
    ("machine provisioning is the host's", "unattended-upgrades update-manager* update-notifier*"),
    ("a distribution's meta package", "ubuntu-* kubuntu-* xubuntu-* lubuntu-* language-selector-*"),
    ("a distribution's meta package", "task-* tasksel* gnome gnome-core kde-* xfce4*"),
    ("the display is the host's", "xserver-* xorg xwayland gdm3 lightdm sddm xinit plymouth*"),
    ("services for logging in are the host's", "openssh-server dropbear* fail2ban sssd* nslcd nscd"),
    ("network management is the host's", "network-manager* netplan.io ifupdown* isc-dhcp-* resolvconf"),
    ("network management is the host's", "wpasupplicant iptables nftables ufw bridge-utils nfs-common"),
    ("the host's own daemons", "rsyslog cron anacron chrony ntp* acpid irqbalance thermald bluez* cups*"),
    ("/usr is merged in every image that is made here", "usrmerge"),
)


def exclusion(name: str) -> str:
    """Return why a package that was asked for is left out, or an empty text."""
    for reason, patterns in _RULES:
        if any(fnmatchcase(name, pattern) for pattern in patterns.split()):
            return reason
    return ""
