whatis("NCCL 2.21.5 for CUDA 12.4")
depends_on("cuda/12.4")
local root = "/apps/nccl/2.21.5"
setenv("NCCL_HOME", root)
prepend_path("CPATH", pathJoin(root, "include"))
prepend_path("LD_LIBRARY_PATH", pathJoin(root, "lib"))
