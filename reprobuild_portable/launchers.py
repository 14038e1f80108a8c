"""Variables of launchers for the rank and number of processes."""

JOB = "REPROBUILD_JOB"  # set by the user or the job's file: any text that the ranks of one job share, and no others

# The variables of each launcher: the rank among all processes of the job, and their number. The most specific come
# first: torchrun under srun sets RANK. A name is empty if the launcher does not set that number.
LAUNCHERS = (
    ("RANK", "WORLD_SIZE"), ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"), ("HOROVOD_RANK", "HOROVOD_SIZE"),
    ("PMIX_RANK", ""), ("PALS_RANKID", "PALS_SIZE"), ("FLUX_TASK_RANK", "FLUX_JOB_SIZE"),
    ("JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE"), ("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"), ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"), ("JOB_COMPLETION_INDEX", ""),
    ("", "PET_NNODES"),
)  # fmt: skip
# torchrun sets it in its workers. RANK and WORLD_SIZE are correct there, also for a single process; elsewhere they
# may be left over, or be those of a pod.
WORKER_OF_TORCHRUN = "TORCHELASTIC_RUN_ID"
# Another that is set in jobs of an unknown number of processes, if no variable has the number.
NAMESPACE = "PMIX_NAMESPACE"
