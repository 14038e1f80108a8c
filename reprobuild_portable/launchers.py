"""Name the variables in which launchers tell a process its rank, and how many there are."""

JOB = "REPROBUILD_JOB"  # set by the user or the job's file: any text that the ranks of one job share, and no others

# The rank among all processes of the job and how many there are, of each launcher; the most specific first: torchrun
# under srun sets RANK. Where one tells no number, it is empty.
LAUNCHERS = (
    ("RANK", "WORLD_SIZE"), ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"), ("HOROVOD_RANK", "HOROVOD_SIZE"),
    ("PMIX_RANK", ""), ("PALS_RANKID", "PALS_SIZE"), ("FLUX_TASK_RANK", "FLUX_JOB_SIZE"),
    ("JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE"), ("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"), ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"), ("JOB_COMPLETION_INDEX", ""),
    ("", "PET_NNODES"),
)  # fmt: skip
# torchrun sets it in its workers. What RANK and WORLD_SIZE say there is so, also that there is one alone; elsewhere
# they may be left over, or be those of a pod.
WORKER_OF_TORCHRUN = "TORCHELASTIC_RUN_ID"
# Others that are there in jobs of an unknown number of processes, where nothing tells a number.
NAMESPACE = "PMIX_NAMESPACE"
